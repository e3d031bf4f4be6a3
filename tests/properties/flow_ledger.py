"""What a journal tells of flow control, folded from facts alone, in the order of commits.

Nothing here uses the engine's own counts: who executes, who waits and what was gathered
is worked out from the facts about runs and events, scopes from the events' data and the
registration that the run's partition had applied.
"""

import json
from dataclasses import dataclass, field

from flow_model_gates import read

from duraton_engine.commands.end_run import child_origin
from duraton_schemas.ids import run_id
from duraton_schemas.slots import PROJECT_SLOT, home_slot, partition_of


@dataclass
class Seen:
    """An event; `label` is its name, independent of ids."""

    label: str
    data: dict
    subject: str | None
    root: str


@dataclass(eq=False)
class Run:
    """A run as the facts tell it."""

    id: str
    label: str
    home: tuple
    kind: str
    partition: int
    events: list
    places: list
    created: int
    order: tuple
    root: str = ""
    starts: list = field(default_factory=list)
    executing: bool = False
    queued: bool = False
    paused: bool = False
    since: int = 0
    worked: int = 0
    ended: tuple | None = None
    spent: tuple = (0, 0)
    cap: dict | None = None
    exempt: bool = False
    exemptions: list = field(default_factory=list)

    def exempt_from(self, at):
        """A person lets it go on while its budget holds it."""
        self.exempt = True
        self.exemptions.append([at, None])

    def exempt_until(self, at):
        """It has spent again."""
        if self.exempt:
            self.exempt = False
            self.exemptions[-1][1] = at

    def exempt_at(self, at):
        return any(
            since <= at and (until is None or at < until) for since, until in self.exemptions
        )

    @property
    def event(self):
        return self.events[0]

    @property
    def first(self):
        return not self.starts


@dataclass
class Registry:
    """What a partition had applied: each app's version and its workflows' options."""

    apps: dict = field(default_factory=dict)
    ceiling: int = 0

    def controls(self, home):
        app = self.apps.get(home[0])
        return {} if app is None else app[1].get(home[1], {})

    def group_max(self, group):
        """That of the newest registration (P24)."""
        found = [
            (version, options["together"].get("max", 10))
            for version, flows in self.apps.values()
            for options in flows.values()
            if options.get("together", {}).get("group") == group
        ]
        return max(found)[1] if found else None


class Ledger:
    """Folds facts.

    Args:
        partitions: How many partitions the cluster has.
    """

    def __init__(self, partitions):
        self.partitions = partitions
        self.project = partition_of(PROJECT_SLOT, partitions)
        self.registries = [Registry() for _ in range(partitions)]
        self.runs = {}
        self.unended = {}
        self.events = {}
        self.by_id = {}
        self.asked = {}
        self.committed = 0
        self.now = 0

    # Facts

    def feed(self, partition, fact):
        """Take the next fact of a partition."""
        self.committed += 1
        self.now = max(self.now, fact.at)
        take = getattr(self, f"on_{type(fact).__name__}", None)
        if take is not None:
            take(partition, fact)

    def on_RegistrationApplied(self, partition, fact):
        registry = self.registries[partition]
        body = json.loads(fact.body) if fact.body else {}
        if fact.kind == "app":
            flows = {flow["name"]: flow for flow in body.get("workflows", ())}
            registry.apps[fact.key] = (fact.version, flows)
        elif fact.kind == "project":
            registry.ceiling = body.get("ceiling", 0)

    def on_EventRecorded(self, partition, fact):
        self._see(fact.event, fact.place)

    def on_EventHeld(self, partition, fact):
        self._see(fact.event, fact.place)

    def _see(self, event, place):
        if event is None:
            return
        data = json.loads(event.data)
        number = str(data.get("n"))
        if event.id in self.asked:
            number = self.asked[event.id]
        elif event.caller is not None and event.caller.kind == "run":
            sender, step, _ = event.id.rsplit("/", 2)
            number += f" by {self.runs[sender].label}/{step[1:]}"
        root = event.caller.root if event.caller is not None else "system:event"
        seen = Seen(number, data, event.subject, root)
        self.events[str(place)] = self.by_id[event.id] = seen

    def on_StepCalled(self, partition, fact):
        if fact.kind == "invoke":
            home = (fact.app or self.runs[fact.run].home[0], fact.workflow)
            self.asked[fact.run, fact.step] = (home, json.loads(fact.data)["n"])
            self._ask(fact.run, fact.step, fact.n, fact.attempt)

    def on_StepFailed(self, partition, fact):
        if fact.kind == "invoke" and fact.retry_at is not None:
            self._ask(fact.run, fact.step, fact.n, fact.attempt + 1)

    def _ask(self, run, step, n, attempt):
        """Know a child's event by the id that it will have."""
        home, number = self.asked[run, step]
        child = run_id(home_slot(*home), child_origin(run, step, n, attempt), *home)
        place = f"{self.runs[run].label}/{step[1:]}/{attempt}"
        self.asked[f"{child}/input"] = f"{number} of {place}"

    def label_of(self, event_id):
        """The label of an event that led to no run."""
        return self.asked.get(event_id) or self.by_id[event_id].label

    # Runs

    def create(self, partition, fact, run, made):
        if made.failed_run is not None:
            failed = self.runs[made.failed_run]
            label, events = f"{failed.label}!failure", failed.events
        else:
            for trigger in made.triggers:
                self._see(trigger.event, trigger.place)
            events = [self.events[str(trigger.place)] for trigger in made.triggers]
            label = f"{made.workflow}:{events[0].label}"
            if made.parent is not None:
                parent = self.runs[made.parent].label
                place = f"{made.parent_step[1:]}/{made.parent_attempt}"
                label = f"{made.workflow} of {parent}/{place}"
        new = Run(
            id=run,
            label=label,
            home=(made.app, made.workflow),
            kind=made.kind,
            partition=partition,
            events=events,
            places=[str(trigger.place) for trigger in made.triggers],
            created=fact.at,
            order=(made.sort_at, fact.header.seq),
            root=made.caller.root,
        )
        assert run not in self.runs, f"{label} is created twice"
        self.runs[run] = self.unended[run] = new
        return new

    def on_RunQueued(self, partition, fact):
        self.create(partition, fact, fact.run, fact.created).queued = True

    def on_RunStarted(self, partition, fact):
        if fact.created is not None:
            self.create(partition, fact, fact.run, fact.created)
        run = self.runs[fact.run]
        run.starts.append(fact.at)
        run.queued, run.executing, run.since = False, True, fact.at
        if fact.ready_at is not None:
            run.order = (run.order[0] + fact.ready_at - run.created, run.order[1])

    def token_over(self, run, at):
        if run.executing:
            run.executing = False
            run.worked += at - run.since

    def on_RunSuspended(self, partition, fact):
        self.token_over(self.runs[fact.run], fact.at)

    on_RunAttemptFailed = on_InvokeFailed = on_RunSuspended

    def on_RunReady(self, partition, fact):
        self.runs[fact.run].queued = True

    def on_RunPaused(self, partition, fact):
        self.runs[fact.run].paused = True

    def on_RunResumed(self, partition, fact):
        self.runs[fact.run].paused = False

    def on_RunEnded(self, partition, fact):
        run = self.runs[fact.run]
        self.token_over(run, fact.at)
        run.queued = False
        run.ended = (fact.status, fact.at, fact.output)
        del self.unended[fact.run]
        if fact.failure is not None:
            self.create(partition, fact, fact.failure_run, fact.failure).queued = True

    # Scopes

    def stated(self, run, control):
        if run.kind != "main":
            return None
        return self.registries[run.partition].controls(run.home).get(control)

    def scope(self, run, control):
        return self.scope_in(self.registries[run.partition].controls(run.home), control, run.event)

    @staticmethod
    def scope_in(controls, control, event):
        """Where an event is counted by a control; `together` counts by the flow's key."""
        path = controls.get("key") if control == "together" else controls[control].get("key")
        if path is None:
            subject = event.subject if control == "together" else None
            return None if subject is None else ("", subject)
        value = read(path, event.data)
        return None if value is None else (path, value)

    def peers(self, run, control):
        """The unended runs of its workflow that share its scope, itself among them."""
        scope = self.scope(run, control)
        return [
            other
            for other in self.unended.values()
            if other.kind == "main"
            and other.home == run.home
            and self.scope(other, control) == scope
        ]

    def executing(self, run, control):
        return [other for other in self.peers(run, control) if other.executing]

    def group(self, run):
        together = self.stated(run, "together")
        if not together or not together.get("group"):
            return None
        scope = self.scope(run, "together")
        return (together["group"], None if scope is None else scope[1])

    def keys(self, run):
        """The gate keys by which its partition counts a run."""
        group = self.group(run)
        ceiling = self.registries[run.partition].ceiling
        return [*([group] if group else []), *(["ceiling"] if ceiling else [])]

    def under(self, key):
        """Who executes under a gate key."""
        return [run for run in self.unended.values() if run.executing and key in self.keys(run)]

    def limit(self, key):
        """What the project slot counts by."""
        return self.limit_of(self.registries[self.project], key)

    @staticmethod
    def limit_of(registry, key):
        return (registry.ceiling or None) if key == "ceiling" else registry.group_max(key[0])
