"""The controls: each a module that says what it holds back, and what a start takes of it.

A control that may hold a start back has the same four functions:

- `check`: whether a run may start by it now, or the gate that holds it and until when;
- `claim`: what a start takes of it, written into the fact;
- `release`: the gates that may open where a run gives back what it took;
- `due`: when a gate of it opens by itself, or None.

`admission.STARTS` is the list of them, in the order of SPEC P1 (7 to 9). Those that decide
whether an event leads to a run at all (2 to 6) are asked by `commands/take_start.py`, in
its own numbered order.
"""
