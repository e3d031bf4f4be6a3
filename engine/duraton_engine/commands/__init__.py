"""Commands decide: they read state and say what follows; one file a command.

Each takes the transition, the engine's context, and what is to be decided about.
State is written by appliers alone, by way of `tx.emit`.
"""
