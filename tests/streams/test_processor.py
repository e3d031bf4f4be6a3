"""The partition processor: what it does with bad input, slow logs, doubt and rivals."""

import pytest

from duraton_engine.appliers import APPLIERS
from duraton_engine.calls import Answered, RoomFreed
from duraton_engine.decoding import POST_HEADER, REGISTRY_HEADER
from duraton_engine.effects import EventAccepted, Reply, ToRunner
from duraton_engine.machine import EngineMachine
from duraton_engine.room import Room, Seat
from duraton_engine.state.tables import TABLES
from duraton_schemas.codec import Codec
from duraton_schemas.options import AppOptions, Cron, WorkflowOptions, write_app
from duraton_schemas.records import commands
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Caller
from duraton_schemas.records.public import Event
from duraton_schemas.wire.frames import Complete, Invoke, Step
from duraton_streams.errors import (
    DoubtError,
    FencedError,
    LogUnreachableError,
    PartitionStoppedError,
)
from duraton_streams.logs.base import (
    COMMANDS,
    DEAD_LETTERS,
    EVENTS,
    JOURNAL,
    MESSAGES,
    NewRecord,
)
from duraton_streams.logs.memory import MemoryLog
from duraton_streams.partition.clock import ManualClock
from duraton_streams.partition.machine import Input
from duraton_streams.partition.processor import PartitionProcessor
from duraton_streams.partition.settings import ProcessorSettings
from duraton_streams.partition.shadow import Shadow
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State

CODEC = Codec()
ME = Caller(kind="key", id="me", root="key:me")
START = 1_767_225_600_000


class Raising(EngineMachine):
    """Decides as the engine does, but raises where a test says so."""

    raises = staticmethod(lambda value: False)
    raises_again = False

    instead = staticmethod(lambda item: item)

    def decide(self, tx, item):
        item = self.instead(item)
        if self.raises(item.value):
            # Half-way, so that something is there to be undone.
            super().decide(tx, item)
            raise ValueError("a defect")
        super().decide(tx, item)

    def quarantine(self, tx, item, error):
        done = super().quarantine(tx, item, error)
        if self.raises_again:
            raise KeyError("another defect")
        return done


class Rig:
    """One partition over a memory log, and all that it hands on."""

    def __init__(self, log=None, store=None, settings=None, node="one", shadow=True):
        self.log = log if log is not None else MemoryLog(1)
        self.store = store if store is not None else MemoryStore()
        self.clock = ManualClock(START)
        self.room = Room()
        self.room.join(Seat("boot", "runner", "connect", frozenset([("app", "w")]), 100))
        self.machine = Raising(0, self.room, codec=CODEC)
        self.handed = []
        self.facts = []
        self.told = []
        self.processor = PartitionProcessor(
            self.log,
            0,
            self.machine,
            State(self.store, TABLES),
            self,
            lambda newest: self.clock,
            codec=CODEC,
            node=node,
            version="test",
            settings=settings or ProcessorSettings(keep_facts=1),
            in_doubt=lambda: self.handed.append("in doubt"),
        )
        if shadow:
            self.processor.shadow = Shadow(self.log, 0, APPLIERS, TABLES, CODEC)

    def committed(self, partition, facts):
        self.handed.append("facts")
        self.facts.extend(fact for _, fact in facts)

    def effects(self, partition, effects):
        self.handed.extend(effects)

    def open(self):
        self.processor.open()
        return self

    def turns(self):
        count = 0
        while self.processor.turn():
            count += 1
            assert count < 1_000, "it does not come to rest"

    def register(self, *workflows, app="app"):
        made = workflows or (WorkflowOptions(name="w"),)
        body = write_app(AppOptions(name=app, workflows=list(made)))
        self.command(commands.RegisterApp(id=f"r-{len(self.told)}", caller=ME, app=app, body=body))
        self.turns()

    def command(self, command, headers=()):
        record = NewRecord(COMMANDS, 0, CODEC.encode(command), None, headers, START)
        self.processor.submit(record, command, self.told.append)

    def event(self, name, number=0, headers=(), data="{}", dedupe=None):
        event = Event(id=f"e{number}", name=name, data=data, ts=START, dedupe_id=dedupe, caller=ME)
        headers = ((POST_HEADER, f"p{number}/0".encode()), *headers)
        record = NewRecord(EVENTS, 0, CODEC.encode(event), None, headers, START)
        self.processor.submit(record, event, self.told.append)

    def kinds(self):
        return [type(fact).__name__ for fact in self.journal()]

    def journal(self):
        return [CODEC.decode(record.value) for record in self.log.read(JOURNAL, 0, 0, 100_000)]

    def of(self, kind):
        return [fact for fact in self.journal() if isinstance(fact, kind)]

    def frames(self, kind):
        return [
            effect.frame
            for effect in self.handed
            if isinstance(effect, ToRunner) and isinstance(effect.frame, kind)
        ]

    def replies(self):
        return [effect for effect in self.handed if isinstance(effect, Reply)]

    def answer(self, frame):
        self.processor.offer(Answered("boot", frame))

    def step(self, invoke, step="a", output='"done"', n=0):
        self.answer(
            Step(
                run=invoke.run,
                token=invoke.token,
                step=step,
                n=n,
                kind="run",
                seen=0,
                output=output,
            )
        )


def running(**more):
    """A rig with one run executing; the rig and the invocation."""
    rig = Rig(**more).open()
    rig.register()
    rig.event("w")
    rig.turns()
    [invoke] = rig.frames(Invoke)
    return rig, invoke


# What cannot be decided ---------------------------------------------------------------


def test_a_run_whose_decision_raises_is_set_apart_and_resumes():
    rig, invoke = running()
    rig.machine.raises = lambda value: isinstance(value, Answered)
    rig.step(invoke)
    rig.turns()
    [apart] = rig.of(facts.RunQuarantined)
    assert (apart.run, apart.error.message) == (invoke.run, "a defect")
    assert not rig.of(facts.StepCompleted)
    assert not rig.room.seats["boot"].tokens
    rig.machine.raises = lambda value: False
    rig.command(commands.ResumeRun(id="c", caller=ME, run=invoke.run))
    rig.turns()
    again = rig.frames(Invoke)[-1]
    assert again.token != invoke.token
    rig.step(again)
    rig.answer(Complete(run=again.run, token=again.token, output="1", seen=1))
    rig.turns()
    assert [fact.status for fact in rig.of(facts.RunEnded)] == ["completed"]


def test_a_decision_that_raises_leaves_nothing_behind():
    rig, invoke = running()
    before = len(rig.journal())
    rig.machine.raises = lambda value: isinstance(value, Answered)
    rig.answer(Complete(run=invoke.run, token=invoke.token, output="1", seen=0))
    rig.turns()
    written = [type(fact).__name__ for fact in rig.journal()[before:]]
    assert written == ["RunQuarantined", "Positions"]
    seqs = [fact.header.seq for fact in rig.journal()]
    assert seqs == list(range(1, len(seqs) + 1))
    assert not rig.log.read("duraton.outcomes", 0, 0, 10)


def test_a_command_that_cannot_be_decided_is_parked_with_its_bytes_and_answered():
    rig = Rig().open()
    rig.machine.raises = lambda value: isinstance(value, commands.RegisterApp)
    body = write_app(AppOptions(name="app", workflows=[]))
    command = commands.RegisterApp(id="c1", caller=ME, app="app", body=body)
    rig.command(command)
    rig.turns()
    [parked] = rig.of(facts.CommandParked)
    assert parked.payload == CODEC.encode(command)
    assert (parked.source.kind, parked.source.offset) == (COMMANDS, 0)
    assert parked.error.name == "ValueError"
    [reply] = rig.replies()
    assert (reply.id, reply.ok, reply.code) == ("c1", False, "engine")
    rig.machine.raises = lambda value: False
    rig.register()
    assert rig.of(facts.RegistryChanged)


def test_what_cannot_even_be_set_apart_is_parked():
    rig, invoke = running()
    rig.machine.raises = lambda value: isinstance(value, Answered)
    rig.machine.raises_again = True
    rig.step(invoke)
    rig.turns()
    assert not rig.of(facts.RunQuarantined)
    [parked] = rig.of(facts.CommandParked)
    assert "another defect" in parked.error.message
    rig.machine.raises = lambda value: False
    rig.step(invoke)
    rig.turns()
    assert len(rig.of(facts.StepCompleted)) == 1


def test_a_timer_whose_decision_raises_fires_once():
    rig = Rig().open()
    rig.register(WorkflowOptions(name="w", cron=Cron(expr="* * * * *", tz="UTC")))
    rig.machine.raises = lambda value: isinstance(value, tuple)
    rig.clock.set(START + 61_000)
    rig.turns()
    [parked] = rig.of(facts.CommandParked)
    assert parked.source.kind == "timer"
    rig.clock.set(START + 600_000)
    rig.turns()
    assert len(rig.of(facts.CommandParked)) == 1


def test_a_timer_that_an_earlier_one_took_back_does_not_fire():
    rig, invoke = running()
    for step in ("a", "b"):
        rig.answer(
            Step(run=invoke.run, token=invoke.token, step=step, kind="sleep", seen=0, due_ms=1_000)
        )
    rig.turns()
    assert rig.processor.next_due() == START + 1_000

    def ends_the_run(item):
        if isinstance(item.value, tuple):
            cancel = commands.CancelRun(id="c", caller=ME, run=invoke.run)
            item = Input(item.cause, cancel)
        return item

    rig.machine.instead = ends_the_run
    rig.clock.set(START + 1_000)
    rig.turns()
    assert [fact.status for fact in rig.of(facts.RunEnded)] == ["cancelled"]
    assert not rig.of(facts.CommandParked)
    assert len(rig.replies()) == 2  # of the registration, and of the first timer's cancel


def test_what_cannot_be_read_becomes_a_dead_letter_and_the_input_goes_on():
    rig = Rig().open()
    rig.register()
    rig.log.append(
        [
            NewRecord(EVENTS, 0, b"\xff\xfe", b"key", (("own", b"header"),), START),
            NewRecord(EVENTS, 0, b'{"name":"w","data":{"n":1}}', timestamp_ms=START),
            NewRecord(EVENTS, 0, None, timestamp_ms=START),
            NewRecord(COMMANDS, 0, b"{}", timestamp_ms=START),
        ]
    )
    rig.turns()
    letters = rig.log.read(DEAD_LETTERS, 0, 0, 10)
    assert [letter.value for letter in letters] == [b"{}", b"\xff\xfe", None]
    headers = dict(letters[1].headers)
    assert letters[1].key == b"key"
    assert headers["own"] == b"header"
    assert headers["duraton_topic"] == EVENTS.encode()
    assert headers["duraton_partition"] == b"0"
    assert headers["duraton_offset"] == b"0"
    assert headers["duraton_code"]
    assert headers["duraton_reason"]
    assert len(rig.of(facts.EventRecorded)) == 1
    assert rig.processor.standing.next_of(EVENTS, 0) == 3


# Inputs and positions ------------------------------------------------------------------


def test_a_gap_in_events_is_recorded_and_passed():
    rig = Rig().open()
    rig.register()
    rig.log.append([NewRecord(EVENTS, 0, b'{"name":"w"}', timestamp_ms=START)] * 5)
    rig.log.delete_below(EVENTS, 0, 3)
    rig.turns()
    [gap] = rig.of(facts.InputGap)
    assert (gap.topic, gap.lost_from, gap.lost_to) == (EVENTS, 0, 3)
    assert [fact.place.offset for fact in rig.of(facts.EventRecorded)] == [3, 4]


def test_a_gap_in_messages_stops_the_partition():
    log = MemoryLog(2)
    log.append([NewRecord(MESSAGES, 0, b"x", timestamp_ms=START)] * 2)
    rig = Rig(log=log, shadow=False)
    rig.processor.open()
    log.delete_below(MESSAGES, 0, 2)
    with pytest.raises(PartitionStoppedError):
        rig.turns()


def test_a_position_is_committed_with_the_next_fact_where_nothing_was_to_be_written():
    rig = Rig().open()
    rig.register()
    before = len(rig.journal())
    [position] = {rig.processor.standing.next_of(COMMANDS, 0)}
    rig.log.append(
        [
            NewRecord(
                COMMANDS,
                0,
                CODEC.encode(commands.CancelRun(id="c", caller=ME, run="run_nobody")),
                timestamp_ms=START,
            )
        ]
    )
    rig.turns()
    # The answer needs no fact, so there was no transaction.
    assert [reply.code for reply in rig.replies()[1:]] == ["run-not-active"]
    assert len(rig.journal()) == before
    assert rig.processor.standing.next_of(COMMANDS, 0) == position
    assert rig.processor.next_of(COMMANDS) == position + 1
    rig.event("w")
    rig.turns()
    assert rig.processor.standing.next_of(COMMANDS, 0) == position + 1
    assert len(rig.replies()) == 2


def test_what_led_to_no_fact_is_answered_again_after_a_restart():
    rig = Rig().open()
    rig.register()
    cancel = commands.CancelRun(id="c", caller=ME, run="run_nobody")
    rig.log.append([NewRecord(COMMANDS, 0, CODEC.encode(cancel), timestamp_ms=START)])
    rig.turns()
    other = Rig(log=rig.log, store=rig.store).open()
    other.turns()
    assert [reply.id for reply in other.replies()] == ["c"]


def test_an_event_waits_for_the_registry_that_its_sender_had_seen():
    log = MemoryLog(2)
    first, second = Rig(log=log, shadow=False), partition(log, 1)
    first.open()
    second.open()
    for app in ("one", "two", "three"):
        first.command(register_command(app, "w"))
    first.turns()
    second.event("w", headers=((REGISTRY_HEADER, b"3"),))
    second.event("w", 1)
    # It reads one version a batch; neither the stamped event nor one behind it is before its turn.
    for _ in range(2):
        assert second.processor.turn()
        assert not second.of_partition(1, facts.EventRecorded)
    second.turns()
    recorded = second.of_partition(1, facts.EventRecorded)
    assert [fact.event_id for fact in recorded] == ["e0", "e1"]
    assert [len(fact.homes) for fact in recorded] == [3, 3]


def test_a_stamp_beyond_all_that_was_registered_holds_nothing_up():
    rig = Rig().open()
    rig.register()
    rig.event("w", headers=((REGISTRY_HEADER, b"999999"),))
    rig.log.append([])
    rig.turns()
    assert len(rig.of(facts.EventRecorded)) == 1


def register_command(app, *names):
    made = AppOptions(name=app, workflows=[WorkflowOptions(name=name) for name in names])
    return commands.RegisterApp(id=f"r-{app}", caller=ME, app=app, body=write_app(made))


def partition(log, number):
    """A rig of another partition than the first."""
    rig = Rig(log=log, shadow=False)
    rig.machine = Raising(number, rig.room, codec=CODEC)
    rig.processor = PartitionProcessor(
        log,
        number,
        rig.machine,
        State(MemoryStore(), TABLES),
        rig,
        lambda newest: rig.clock,
        codec=CODEC,
        node="two",
        version="test",
        settings=ProcessorSettings(messages_max=1),
    )
    event = rig.event

    def here(*args, **more):
        submit = rig.processor.submit
        rig.processor.submit = lambda record, value, taken: submit(
            record._replace(partition=number), value, taken
        )
        try:
            event(*args, **more)
        finally:
            rig.processor.submit = submit

    rig.event = here
    rig.of_partition = lambda part, kind: [
        fact
        for fact in (CODEC.decode(record.value) for record in log.read(JOURNAL, part, 0, 10_000))
        if isinstance(fact, kind)
    ]
    return rig


def test_what_others_wrote_comes_before_what_the_owner_writes():
    rig = Rig(settings=ProcessorSettings(events_max=2, keep_facts=1)).open()
    rig.register()
    rig.log.append([NewRecord(EVENTS, 0, b'{"name":"w"}', timestamp_ms=START)] * 5)
    rig.event("w", 7)
    rig.turns()
    places = [(fact.place.offset, fact.event_id) for fact in rig.of(facts.EventRecorded)]
    assert places[-1] == (5, "e7")
    assert [offset for offset, _ in places] == [0, 1, 2, 3, 4, 5]
    # The place that a run's id is made from is where the event stands.
    assert CODEC.decode(rig.log.read(EVENTS, 0, 5, 1)[0].value).id == "e7"


# Owners --------------------------------------------------------------------------------


def test_a_fenced_owner_ends_and_has_written_nothing():
    rig, invoke = running()
    rival = Rig(log=rig.log, node="two").open()
    before = len(rig.journal())
    handed = len(rig.handed)
    rig.step(invoke)
    with pytest.raises(FencedError):
        rig.turns()
    assert len(rig.journal()) == before
    assert len(rig.handed) == handed
    rig.processor.close()
    # Nor is anything of it in its store.
    again = Rig(log=rig.log, store=rig.store, node="three").open()
    assert not again.of(facts.StepCompleted)
    assert rival.processor.standing.epoch == 2
    assert again.processor.standing.epoch == 3


def test_an_owner_finds_its_successor_and_writes_nothing():
    rig, _ = running()
    assert rig.processor.successor() is None
    rig.event("w", 1)
    rig.turns()
    assert rig.processor.successor() is None
    rival = Rig(log=rig.log, node="two").open()
    before = len(rig.journal())
    for _ in range(2):
        assert rig.processor.successor().node == "two"
    assert rival.processor.successor() is None
    assert len(rig.journal()) == before


def test_who_opens_again_after_a_doubt_is_no_successor_of_itself():
    rig, _ = running()
    rig.processor.doubt()
    rig.processor.doubt()
    assert rig.processor.standing.epoch == 3
    assert rig.processor.successor() is None


def test_epochs_rise_with_every_owner():
    log, store = MemoryLog(1), MemoryStore()
    for epoch in (1, 2, 3):
        rig = Rig(log=log, store=store).open()
        assert rig.processor.standing.epoch == epoch
        rig.processor.close()
    assert [fact.header.epoch for fact in rig.of(facts.OwnerTook)] == [1, 2, 3]


def test_after_a_slow_commit_effects_wait_for_a_proof():
    rig, invoke = running()
    rig.step(invoke)
    batch = rig.processor.prepare()
    offsets = rig.processor.commit(batch)
    count = len(rig.handed)
    rig.processor.finish(batch, offsets, took_ms=3_001)
    assert isinstance(rig.journal()[-1], facts.OwnerAlive)
    assert [type(effect).__name__ for effect in rig.handed[count:]] == ["str", "str", "ToRunner"]


def test_after_a_slow_commit_an_owner_that_was_fenced_hands_nothing_on():
    rig, invoke = running()
    rig.step(invoke)
    batch = rig.processor.prepare()
    offsets = rig.processor.commit(batch)
    Rig(log=rig.log, node="two").open()
    count = len(rig.handed)
    with pytest.raises(FencedError):
        rig.processor.finish(batch, offsets, took_ms=3_001)
    assert len(rig.handed) == count


def test_doubt_about_the_proof_is_doubt():
    fails = []

    def faults(point, partition, records):
        if fails and point == fails[0] and len(records) == 1:
            fails.clear()
            raise DoubtError("no answer")

    rig, invoke = running(log=MemoryLog(1, faults=faults))
    rig.step(invoke)
    batch = rig.processor.prepare()
    offsets = rig.processor.commit(batch)
    fails.append("after_commit")
    with pytest.raises(DoubtError):
        rig.processor.finish(batch, offsets, took_ms=3_001)
    rig.processor.doubt()
    rig.turns()
    assert rig.processor.standing.epoch == 2
    assert len(rig.of(facts.StepCompleted)) == 1


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_doubt_rebuilds_and_what_was_said_counts_once(point):
    fails = []

    def faults(where, partition, records):
        if where == point and fails:
            fails.clear()
            raise DoubtError("no answer")

    rig, invoke = running(log=MemoryLog(1, faults=faults))
    rig.step(invoke)
    rig.event("w", 2)
    fails.append(1)
    rig.turns()
    assert "in doubt" in rig.handed
    # The step's call is offered again; its token is of the old epoch, but still the run's.
    assert len(rig.of(facts.StepCompleted)) == 1
    assert rig.processor.standing.epoch == 2
    # Whoever submitted the event is told that it is not known.
    assert rig.told[-1] is None
    recorded = [fact.event_id for fact in rig.of(facts.EventRecorded)]
    assert recorded == (["e0", "e2"] if point == "after_commit" else ["e0"])


@pytest.mark.parametrize("where", ["writer", "bounds"])
def test_a_log_that_is_away_loses_nothing_until_it_is_back(where, monkeypatch):
    rig, invoke = running()
    rig.step(invoke)
    rig.processor.prepare()
    real = getattr(rig.log, where)

    def away(*args, **more):
        raise LogUnreachableError("no broker answers")

    for _ in range(3):
        monkeypatch.setattr(rig.log, where, away)
        with pytest.raises(LogUnreachableError):
            rig.processor.doubt()
        assert not rig.processor.owns
        monkeypatch.setattr(rig.log, where, real)
    rig.processor.doubt()
    assert rig.processor.owns
    rig.turns()
    assert len(rig.of(facts.StepCompleted)) == 1
    assert [fact.header.epoch for fact in rig.of(facts.OwnerTook)] == [1, 2]


def test_doubt_about_the_first_commit_of_an_owner_is_settled_by_the_journal():
    left = ["after_commit", "before_commit", "after_commit"]

    def faults(where, partition, records):
        if left and where == left[0]:
            left.pop(0)
            raise DoubtError("no answer")

    rig = Rig(log=MemoryLog(1, faults=faults)).open()
    assert not left
    assert rig.processor.standing.epoch == 3
    assert [fact.header.epoch for fact in rig.of(facts.OwnerTook)] == [1, 2, 3]


def test_a_log_that_stays_in_doubt_stops_the_start():
    def faults(where, partition, records):
        raise DoubtError("never an answer")

    with pytest.raises(DoubtError):
        Rig(log=MemoryLog(1, faults=faults)).open()


def test_batches_fall_together_with_the_first_that_fails():
    rig, invoke = running(shadow=False)
    rig.step(invoke)
    first = rig.processor.prepare()
    rig.event("w", 2)
    assert rig.processor.may_prepare
    second = rig.processor.prepare()
    before = len(rig.journal())
    told = rig.processor.doubt()
    assert len(told) == 1
    assert len(rig.journal()) == before + 1  # that the owner took it again
    rig.turns()
    assert len(rig.of(facts.StepCompleted)) == 1
    assert first.facts
    assert second.facts


def test_batches_are_committed_one_behind_the_other():
    rig, invoke = running(shadow=False)
    rig.step(invoke)
    first = rig.processor.prepare()
    rig.event("w", 2)
    second = rig.processor.prepare()
    one = rig.processor.commit(first)
    rig.processor.finish(first, one)
    two = rig.processor.commit(second)
    rig.processor.finish(second, two)
    rig.turns()
    assert [fact.place.offset for fact in rig.of(facts.EventRecorded)] == [0, 1]
    assert len(rig.frames(Invoke)) == 2
    seqs = [fact.header.seq for fact in rig.journal()]
    assert seqs == list(range(1, len(seqs) + 1))


def test_with_a_shadow_batches_do_not_overlap():
    rig, invoke = running()
    rig.step(invoke)
    rig.processor.prepare()
    assert not rig.processor.may_prepare


def test_nothing_uncommitted_reaches_the_store():
    rig, invoke = running()
    rig.step(invoke)
    rig.processor.prepare()
    rig.processor.close()
    again = Rig(log=rig.log, store=rig.store).open()  # its shadow compares all rows
    assert not again.of(facts.StepCompleted)


def test_the_backlog_counts_what_waits_in_memory():
    rig = Rig().open()
    for number in range(3):
        rig.event("w", number)
    rig.command(register_command("app", "w"))
    assert rig.processor.backlog == 4
    rig.turns()
    assert rig.processor.backlog == 0


def test_results_and_timers_pass_whatever_waits():
    settings = ProcessorSettings(events_max=1, commands_max=1, keep_facts=1)
    rig, invoke = running(settings=settings)
    for number in range(1, 50):
        rig.event("w", number)
    rig.step(invoke)
    rig.processor.turn()
    assert len(rig.of(facts.StepCompleted)) == 1
    assert rig.processor.backlog == 48


def test_an_event_is_accepted_only_once_it_is_committed():
    rig = Rig().open()
    rig.register()
    rig.event("w", 3)
    batch = rig.processor.prepare()
    assert not [effect for effect in rig.handed if isinstance(effect, EventAccepted)]
    rig.processor.finish(batch, rig.processor.commit(batch))
    [accepted] = [effect for effect in rig.handed if isinstance(effect, EventAccepted)]
    assert accepted.event_id == "e3"
    assert rig.told[-1] == 0


def test_a_call_for_later_is_offered_at_its_time():
    rig = Rig().open()
    rig.turns()
    rig.processor.call_at(START + 500, RoomFreed())
    assert rig.processor.next_due() == START + 500
    rig.turns()
    assert rig.processor.next_due() == START + 500
    rig.clock.set(START + 500)
    rig.turns()
    assert rig.processor.next_due() is None
