"""The gateway between the engine and the runner processes: connections, calls, room (DESIGN 8)."""
