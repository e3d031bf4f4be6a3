"""Three engines follow each other on one cluster under a load of every control.

The first is killed (SIGKILL), the second is alive when the third takes the cluster over.
Each begins without any local state. Clients send to all that live, the worker
knows one address before them, and lives on. Here stand the parts of cases with several
engine processes, as far as they can be: engines that share a cluster's partitions and
decide at the same time do not exist yet, so of several processes all accept events, and
one decides.
"""

import json
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest
from engine_rig import HERE, Client, Cluster
from kill_rig import verified

# Real processes on a busy machine; whichever test comes first waits for the load.
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

PARTITIONS = 4
CLIENTS = 8
PHASES = 3
"""Each has its share of the events, and ends in the middle of it with another engine."""
EVENTS = {
    "spent": 1,
    "limited": 200,
    "keyed": 24,
    "spaced": 16,
    "few": 20,
    "batch": 20,
    "once": 20,
    "single": 50,
    "joined": 100,
    "stopper": 12,
    "crew.a": 12,
    "crew.b": 12,
    "capped": 4,
    "last": 100,
}
LATER = 3
"""Further events of `spent`, sent while it is held."""
CEILING = 14
UNENDED = "queued,running,waiting,paused"


@dataclass
class Evidence:
    """What is there once all has ended."""

    flow: object
    facts: Counter = field(default_factory=Counter)
    steps: Counter = field(default_factory=Counter)
    recorded: dict = field(default_factory=lambda: defaultdict(list))
    outcomes: dict = field(default_factory=lambda: defaultdict(Counter))
    owners: dict = field(default_factory=dict)
    starts_by_owner: Counter = field(default_factory=Counter)
    lost: Counter = field(default_factory=Counter)
    failures: dict = field(default_factory=dict)
    released: int = 0
    ledger: list = field(default_factory=list)
    shown: dict = field(default_factory=dict)
    verify: dict = field(default_factory=dict)
    said: list = field(default_factory=list)

    def runs(self, workflow):
        return [run for run in self.flow.runs.values() if run.home[1] == workflow]


def event(name, n, k=1):
    return {"name": name, "data": {"n": n, "k": k}, "dedupeId": f"{name}-{n}"}


def shares():
    """For each phase the events of each client, those of one workflow side by side."""
    found = []
    for phase in range(PHASES):
        of_all = []
        for name, count in EVENTS.items():
            for n in range(-(-count * phase // PHASES), -(-count * (phase + 1) // PHASES)):
                of_all.append(event(name, n, n % 2 if name == "keyed" else 1))
        # Many clients send one key's events at the same moment.
        found.append([of_all[client::CLIENTS] for client in range(CLIENTS)])
    return found


def let_go(cluster, share, front):
    """Begin to send a phase's events, and return in the middle of them."""
    clients = [Client(cluster, events) for events in share]
    half = sum(map(len, share)) // 2
    cluster.wait("half are sent", lambda: sum(client.sent for client in clients) >= half)
    front.check_alive()
    return clients


def put_in_front(cluster, engine):
    engine.wait_ready()
    cluster.front.to = engine.port


def play(cluster):
    """The load from beginning to end; the engine that is left."""
    first = cluster.engine()
    put_in_front(cluster, first)
    cluster.worker(HERE / "engine_flows.py")
    late = cluster.worker(HERE / "engine_late.py")
    cluster.wait("both apps", lambda: len(cluster.ask("/workflows")["workflows"]) == len(EVENTS))
    cluster.set_ceiling(first, CEILING)
    phases = iter(shares())

    clients = let_go(cluster, next(phases), first)
    first.kill("engine")
    second = cluster.engine()
    put_in_front(cluster, second)

    clients += let_go(cluster, next(phases), second)
    third = cluster.engine()
    assert second.wait_end() == 1
    second.end()
    put_in_front(cluster, third)

    clients += let_go(cluster, next(phases), third)
    cluster.wait("the budget holds", lambda: count(cluster, "paused", "spent") == 1)
    later = [event("spent", 1 + n) for n in range(LATER)]
    clients.append(Client(cluster, [event("spent.go", 0), *later]))
    for client in clients:
        client.join()
        if client.failed is not None:
            raise client.failed
    cluster.wait("all are held", lambda: count(cluster, "paused", "spent") == 1 + LATER)
    late.stop("worker")
    cluster.worker(HERE / "engine_late.py", ENGINES_LATE="1")
    cluster.go.touch()
    cluster.wait("all have ended", lambda: ended(cluster))
    return third


def count(cluster, status, workflow):
    asked = cluster.ask(f"/runs?status={status}&workflow={workflow}&limit=100")
    return len(asked["runs"])


def ended(cluster):
    state = cluster.ask("/flow-state")
    waiting = any(state[each] for each in ("debounce", "batch"))
    return not waiting and not cluster.ask(f"/runs?status={UNENDED}&limit=1&kind=all")["runs"]


@pytest.fixture(scope="module")
def evidence(tmp_path_factory, kafka_bootstrap):
    home = tmp_path_factory.mktemp("turn")
    cluster = Cluster(home, kafka_bootstrap, f"t{uuid.uuid4().hex[:10]}.", PARTITIONS)
    try:
        last = play(cluster)
        from flow_checks import Checks

        found = Evidence(Checks(PARTITIONS))
        look(cluster, found)
        for rig in cluster.workers:
            rig.end()
        assert last.stop("engine") == 0
        found.verify = verified(last)
        found.said = [engine.said for engine in cluster.engines]
        fold(cluster, found)
        yield found
    finally:
        cluster.end()


def look(cluster, found):
    """What the last engine shows of the events and runs of some workflows."""
    for name in ("single", "joined", "once"):
        events = cluster.ask(f"/events?name={name}&limit=100")["events"]
        found.shown[name] = [each["runs"] for each in events]


def fold(cluster, found):
    """Hold every fact to the rules, and keep what the tests ask for."""
    found.ledger = [line.split() for line in cluster.ledger.read_text().splitlines()]
    owners, events = {}, {}
    for partition, fact in cluster.facts():
        kind = type(fact).__name__
        found.facts[kind] += 1
        if kind == "OwnerTook":
            owners[partition] = fact.node
            found.owners.setdefault(fact.node, len(found.owners))
        elif kind == "RunStarted":
            found.starts_by_owner[found.owners[owners[partition]]] += 1
        elif kind == "InvokeFailed":
            found.lost[fact.run] += 1
        elif kind == "EventHeld":
            events[fact.event.id] = fact.event
        elif kind == "EventRecorded":
            recorded = fact.event or events[fact.event_id]
            found.recorded[recorded.name].append(json.loads(recorded.data)["n"])
        elif kind == "StepCompleted":
            found.steps[fact.run, fact.step, fact.n] += 1
        elif kind == "StartDeclined":
            found.outcomes[fact.workflow][fact.outcome] += len(fact.event_ids)
        elif kind == "StartJoined":
            found.outcomes[fact.workflow]["joined"] += 1
        elif kind == "RunEnded" and fact.error is not None:
            found.failures[fact.run] = fact.error
        elif kind == "WorkflowReleased":
            found.released += 1
        found.flow.feed(partition, fact)


def taken(evidence, runs):
    """How often each run began; a start that its engine's death kept from the worker is none."""
    return {len(run.starts) - evidence.lost[run.id] for run in runs}


def statuses(evidence, workflow):
    return Counter(run.ended[0] for run in evidence.runs(workflow))


def most_at_once(evidence, *workflows):
    """By the worker's own account: the most steps of these workflows at one moment."""
    most = now = 0
    for what, workflow, *_ in evidence.ledger:
        if workflow in workflows:
            now += 1 if what == "b" else -1
            most = max(most, now)
    return most


def test_three_engines_decided_one_after_the_other(evidence):
    assert len(evidence.owners) == 3
    assert all(evidence.starts_by_owner[number] for number in range(3)), evidence.starts_by_owner
    assert ["(log-fenced)" in said for said in evidence.said] == [False, True, False]


def test_nothing_is_lost_and_nothing_is_there_twice(evidence):
    wanted = {name: list(range(count)) for name, count in EVENTS.items()}
    wanted |= {"spent": list(range(1 + LATER)), "spent.go": [0]}
    assert {name: sorted(found) for name, found in evidence.recorded.items()} == wanted
    assert evidence.flow.unpaid() == []
    assert evidence.flow.unended == {}
    assert not evidence.flow.open
    assert set(evidence.steps.values()) == {1}
    # The workers lived on, and what lives is adopted: no attempt began twice.
    begun = Counter(tuple(rest) for what, *rest in evidence.ledger if what == "b")
    assert set(begun.values()) == {1}


def test_the_state_is_what_the_journal_gives(evidence):
    assert evidence.verify["ok"], evidence.verify
    assert evidence.verify["stateCompared"]


def test_limits_hold_by_the_workers_own_account(evidence):
    # That no fact breaks a rule was seen while they were read (`Checks`).
    assert evidence.facts["RunStarted"] > sum(EVENTS.values()) / 2
    assert most_at_once(evidence, "crew.a", "crew.b") <= 2
    # A stopped run has given its place back before its step hears that it is cancelled.
    assert most_at_once(evidence, *(EVENTS.keys() - {"stopper"})) <= CEILING
    assert statuses(evidence, "few") == {"completed": 7}
    assert evidence.outcomes["few"] == {"dropped": EVENTS["few"] - 7}
    batches = [json.loads(run.ended[2]) for run in evidence.runs("batch")]
    assert all(len(each) <= 5 for each in batches)
    assert sorted(n for each in batches for n in each) == list(range(EVENTS["batch"]))


def test_a_cap_halts_before_the_next_call(evidence):
    assert statuses(evidence, "capped") == {"failed": EVENTS["capped"]}
    for run in evidence.runs("capped"):
        assert evidence.failures[run.id].name == "BudgetError"
        assert sum(steps for (of, *_), steps in evidence.steps.items() if of == run.id) == 3


def test_case_031_a_limit_is_exact_while_engines_come_and_go(evidence):
    assert statuses(evidence, "limited") == {"completed": 200}
    assert most_at_once(evidence, "limited") <= 5


def test_case_059_one_hundred_events_of_one_key_are_one_run(evidence):
    [run] = evidence.runs("last")
    assert len(evidence.recorded["last"]) == 100
    assert json.loads(run.ended[2]) == evidence.recorded["last"][-1]


def test_case_083_fifty_at_once_are_one_run(evidence):
    [run] = evidence.runs("single")
    assert evidence.outcomes["single"] == {"skipped": 49}
    shown = Counter((each["outcome"], each["runId"]) for [each] in evidence.shown["single"])
    assert shown == {("skipped", None): 49, ("run", run.id): 1}


def test_case_094_one_of_twenty_has_the_key(evidence):
    [run] = evidence.runs("once")
    assert evidence.outcomes["once"] == {"deduped": 19}
    shown = Counter((each["outcome"], each["runId"]) for [each] in evidence.shown["once"])
    assert shown == {("deduped", None): 19, ("run", run.id): 1}


def test_case_110_under_stop_the_last_stays(evidence):
    runs = sorted(evidence.runs("stopper"), key=lambda run: run.order)
    assert [run.ended[0] for run in runs] == ["cancelled"] * (len(runs) - 1) + ["completed"]
    assert len(runs) == EVENTS["stopper"]


def test_case_115_one_hundred_joins_have_one_id(evidence):
    [run] = evidence.runs("joined")
    assert evidence.outcomes["joined"] == {"joined": 99}
    shown = Counter((each["outcome"], each["runId"]) for [each] in evidence.shown["joined"])
    assert shown == {("joined", run.id): 99, ("run", run.id): 1}


def test_case_132_a_raised_budget_lets_go_once(evidence):
    assert evidence.released == 1
    assert statuses(evidence, "spent") == {"completed": 1 + LATER}
    later = [run for run in evidence.runs("spent") if run.event.label != "0"]
    assert taken(evidence, later) == {1}


def test_case_205_a_delayed_start_happens_once(evidence):
    # Their distance was seen while the facts were read.
    assert statuses(evidence, "spaced") == {"completed": EVENTS["spaced"]}
    assert taken(evidence, evidence.runs("spaced")) == {1}
