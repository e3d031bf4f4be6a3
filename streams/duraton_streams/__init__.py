"""The log and what runs on it: logs, state tables, timers, the partition processor."""
