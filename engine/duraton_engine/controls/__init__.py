"""The controls: each a module that says what it holds back, and what a start takes of it.

Those of `admission.STARTS`, which may hold a start back, have the same four functions:

- `check`: whether a run may start by it now, or the gate that holds it and until when;
- `claim`: what a start takes of it, written into the fact;
- `release`: the gates that may open where a run gives back what it took;
- `due`: when a gate of it opens by itself, or None.

The list is in the order of SPEC P1 (7 to 9). Behind it come room at a runner, which is kept
in memory, and what `project` counts across workflows, whose places are given back by a
message. What decides whether an event leads to a run at all (2 to 6) is asked in the numbered
orders of `commands/offer_event.py` and `commands/take_start.py`. Debounce and batch are
windows and buffers there, and priority is a run's sort key (`Flow.shift_ms`); a cap is looked
at in the runner.
"""
