"""What the engine and a runner say to each other; see docs/reference/wire-protocol.md."""
