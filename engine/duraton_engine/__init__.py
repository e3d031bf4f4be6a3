"""The engine: commands decide, appliers apply. No clock, randomness or I/O in here."""
