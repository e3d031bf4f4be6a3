"""What becomes of each event at each workflow that it matches: exactly one thing.

An event that was offered leads to a run of its own, joins one, is declined, or is taken
into a window or buffer. What is gathered there is replaced by a later event (debounce),
or is in exactly one firing, which in turn leads to a run, joins, is declined, or is held.
"""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Gathered:
    """An open window or buffer, or a firing that is held.

    Attributes:
        places: Its events' places on the log.
    """

    kind: str
    home: tuple
    scope: str
    due: int
    places: list = field(default_factory=list)


class Accounts:
    """The part of the checks that follows events."""

    def __init__(self, partitions):
        super().__init__(partitions)
        self.owed = {}
        self.open = {}
        self.held = {}
        self.fired = defaultdict(list)

    def on_EventRecorded(self, partition, fact):
        super().on_EventRecorded(partition, fact)
        for home in fact.homes:
            owed = (str(fact.place), (home.app, home.workflow))
            self.holds(owed not in self.owed, f"{owed} is offered twice")
            self.owed[owed] = "offered"

    def pay(self, place, home, outcome):
        """An event has its outcome; it had none before."""
        owed = (str(place), home)
        self.holds(self.owed.get(owed) == "offered", f"{owed}: {self.owed.get(owed)}, {outcome}")
        self.owed[owed] = outcome

    # Windows and buffers

    def on_WindowSlid(self, partition, fact):
        home = (fact.app, fact.workflow)
        if fact.event is not None:
            self._see(fact.event, fact.place)
        key = ("debounce", home, fact.scope)
        self.pay(fact.place, home, "window")
        seen = self.events[str(fact.place)]
        self.holds(fact.opened == (key not in self.open), f"a window: opened is {fact.opened}")
        old = self.open.get(key)
        if old is not None:
            self.holds(fact.at <= old.due, f"a window is slid at {fact.at}, due {old.due}")
        control = self.registries[partition].controls(home)["debounce"]
        due = fact.at + control["periodMs"]
        self.holds(fact.due == due, f"a window is due at {fact.due}, not {due}")
        self.open[key] = Gathered("debounce", home, fact.scope, due, [str(fact.place)])
        self.take(partition, home, seen, fact.at, opened=fact.opened)

    def on_BufferFilled(self, partition, fact):
        home = (fact.app, fact.workflow)
        if fact.event is not None:
            self._see(fact.event, fact.place)
        key = ("batch", home, fact.scope)
        self.pay(fact.place, home, "buffer")
        seen = self.events[str(fact.place)]
        self.holds(fact.opened == (key not in self.open), f"a buffer: opened is {fact.opened}")
        control = self.registries[partition].controls(home)["batch"]
        if fact.opened:
            due = fact.at + control["timeoutMs"]
            self.open[key] = Gathered("batch", home, fact.scope, due)
        buffer = self.open[key]
        self.holds(fact.at <= buffer.due, f"a buffer is filled at {fact.at}, due {buffer.due}")
        self.holds(fact.due == buffer.due, f"a buffer is due at {fact.due}, not {buffer.due}")
        buffer.places.append(str(fact.place))
        self.take(partition, home, seen, fact.at, opened=fact.opened)

    def on_WindowFired(self, partition, fact):
        gathered = self._over(partition, "debounce", fact)
        controls = self.registries[partition].controls(gathered.home)
        if "debounce" in controls:
            text = f"a window fires at {fact.at}, its quiet ends at {gathered.due}"
            self.holds(fact.at >= gathered.due, text)

    def on_BufferFlushed(self, partition, fact):
        gathered = self._over(partition, "batch", fact)
        most = self.registries[partition].controls(gathered.home).get("batch", {}).get("maxSize")
        full = most is not None and len(gathered.places) >= most
        right = {"size": full, "time": fact.at >= gathered.due, "removed": most is None}
        self.holds(right[fact.why], f"a buffer is flushed by {fact.why} with {gathered}")

    def _over(self, partition, kind, fact):
        home = (fact.app, fact.workflow)
        gathered = self.open.pop((kind, home, fact.scope))
        if fact.held is None:
            self.fired[partition].append(gathered)
        else:
            self.held[partition, home, fact.held, fact.header.seq] = gathered
        return gathered

    def on_FiringReleased(self, partition, fact):
        home = (fact.app, fact.workflow)
        own = self.held[partition, home, fact.gate, fact.number]
        control, controls = fact.gate.split("\0")[0], self.registries[partition].controls(home)

        def scope(gathered):
            """Where it is counted now: the keys may have changed since it was held."""
            event = self.events[gathered.places[0]]
            return self.scope_in(controls, control, event) if control in controls else None

        earlier = [
            key
            for key, other in self.held.items()
            if key[:3] == (partition, home, fact.gate) and scope(other) == scope(own)
        ]
        if own.kind == "batch":
            text = f"a firing goes on before an earlier one: {fact.number} of {earlier}"
            self.holds(all(key[3] >= fact.number for key in earlier), text)
        self.fired[partition].append(self.held.pop((partition, home, fact.gate, fact.number)))

    def on_FiringHeld(self, partition, fact):
        home = (fact.app, fact.workflow)
        gathered = self._fired(partition, home, [str(place) for place in fact.places])
        self.holds(gathered is not None, "a firing is held that did not fire")
        self.held[partition, home, fact.gate, fact.header.seq] = gathered

    def _fired(self, partition, home, places):
        """Take back the firing of just these events, or None."""
        for gathered in self.fired[partition]:
            if gathered.home == home and gathered.places == places:
                self.fired[partition].remove(gathered)
                return gathered
        return None

    # What comes of a start

    def account_run(self, partition, fact, run, made):
        if self._fired(partition, run.home, run.places) is not None:
            return
        self.holds(len(run.places) == 1, f"{run.label} has events that did not fire together")
        if made.parent is None:
            self.pay(run.places[0], run.home, run.label)
        self.take(partition, run.home, run.event, fact.at, opened=True)

    def account_declined(self, partition, fact):
        home, places = (fact.app, fact.workflow), [str(place) for place in fact.places]
        if self._fired(partition, home, places) is None and fact.parent is None:
            self.pay(places[0], home, fact.outcome)

    def on_StartJoined(self, partition, fact):
        home, places = (fact.app, fact.workflow), [str(place) for place in fact.places]
        run = self.runs[fact.run]
        self.holds(run.ended is None and run.home == home, f"{places} join {run.label}")
        same = fact.caller.root == run.root or fact.caller.root.startswith("system:")
        self.holds(same, f"{fact.caller.root} joins a run of {run.root}")
        if self._fired(partition, home, places) is None and fact.parent is None:
            self.pay(places[0], home, f"joined {run.label}")

    def settle_accounts(self, partition):
        """At the end of a transition: what fired in it has come to something."""
        lost = self.fired[partition]
        self.holds(not lost, f"fired and lost: {lost}")

    def unpaid(self):
        return [owed for owed, outcome in self.owed.items() if outcome == "offered"]
