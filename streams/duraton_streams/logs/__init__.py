"""The logs: `base` says what a log is; memory, SQLite and Kafka each hold one."""
