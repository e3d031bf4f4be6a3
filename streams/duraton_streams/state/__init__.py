"""State of a partition: typed tables over an ordered store, and timers."""
