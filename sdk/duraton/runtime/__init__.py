"""The durable execution of handlers, without I/O and without a clock of its own.

`runner` holds many `execution`s; `order` gives a handler its results in the order
in which they were committed; `code` executes the user's step code; `failures`
turns what was thrown into what is sent.
"""
