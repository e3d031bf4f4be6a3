"""What `duraton log verify` finds, and that it finds nothing in a journal that is whole."""

import pytest

from duraton import define_workflow
from duraton.testing import Engine
from duraton_api.verification import verify_cluster
from duraton_engine.appliers import APPLIERS
from duraton_engine.state.objects import Claim
from duraton_engine.state.tables import CLAIMS, TABLES
from duraton_schemas.codec import Codec
from duraton_schemas.records import journal as facts
from duraton_streams.logs.base import EVENTS, JOURNAL, NewRecord
from duraton_streams.logs.memory import MemoryLog
from duraton_streams.partition.recovery import read_standing, replay
from duraton_streams.partition.verify import rebuild, verify
from duraton_streams.state.memory import MemoryStore
from duraton_streams.state.overlay import State
from duraton_streams.state.rocksdb import RocksStore

CODEC = Codec()


async def order(ctx):
    await ctx.step.run("charge", lambda: 1)
    await ctx.step.sleep("rest", "10s")
    return await ctx.step.run("ship", lambda: 2)


async def mail(ctx):
    await ctx.step.run("send", lambda: 1)


APP = (
    define_workflow("order", order, triggers=["order.created"]),
    define_workflow("mail", mail, triggers=["order.*"]),
)


async def recorded(partitions, events=3, advance="20s"):
    """The log of a cluster that ran a few orders, the last one met by a repeat."""
    async with Engine(*APP, partitions=partitions) as engine:
        for number in range(events):
            await engine.send("order.created", {"n": number}, dedupe_id=f"d{number}")
            await engine.send("order.created", {"n": number}, dedupe_id=f"d{number}")
        await engine.advance(advance)
        return engine._host.core.log


def state_of(log, partition, upto=None, store=None):
    """A partition's state as an engine would have left it at a position."""
    state = State(store or MemoryStore(), TABLES)
    standing = read_standing(state, log, partition)
    end = log.bounds(JOURNAL, partition)[1] if upto is None else upto
    replay(log, state, standing, APPLIERS, CODEC, end=end, batch=50)
    return state


@pytest.mark.parametrize("partitions", [1, 12])
async def test_a_whole_journal_has_no_problem_and_its_figures_are_right(partitions):
    log = await recorded(partitions)
    found = verify_cluster(log, stored=lambda number: state_of(log, number))
    assert found.problems == []
    assert found.ok
    assert found.exactly_once
    figures = found.figures
    assert (figures.events, figures.repeats) == (3, 3)
    assert (figures.offers, figures.offers_met, figures.offers_open) == (6, 6, 0)
    assert figures.runs == 6
    assert figures.ended == {"completed": 6}
    assert figures.unended == 0
    assert figures.steps == 3 * 3 + 3
    assert figures.quarantined == figures.parked == figures.discarded == 0
    assert all(report.compared_at is not None for report in found.partitions)
    assert found.facts == sum(sum(report.kinds.values()) for report in found.partitions)


async def test_runs_under_way_are_counted_as_such():
    log = await recorded(1, advance="1s")
    found = verify_cluster(log)
    assert found.ok
    assert found.figures.unended == 3
    assert found.figures.ended == {"completed": 3}
    assert found.exactly_once


async def test_a_state_that_is_behind_is_compared_where_it_stands():
    log = await recorded(1)
    transactions = [
        record.offset + 1
        for record in log.read(JOURNAL, 0, 0, 10_000)
        if isinstance(CODEC.decode(record.value), facts.Positions)
    ]
    for position in transactions:
        report = verify(log, 0, APPLIERS, TABLES, CODEC, stored=state_of(log, 0, upto=position))
        assert report.ok, report.problems
        assert report.compared_at == position
        assert report.facts_after == report.facts - position
        assert report.journal_end == log.bounds(JOURNAL, 0)[1]


async def test_a_stored_row_that_the_journal_does_not_give_is_named():
    log = await recorded(1)
    store = MemoryStore()
    state = state_of(log, 0, store=store)
    standing = {"standing": state.meta("standing")}
    state.begin()
    state.put(CLAIMS, (1, "nobody's"), Claim("e", 1))
    state.commit_transition()
    state.flush(standing)
    report = verify(log, 0, APPLIERS, TABLES, CODEC, stored=State(store, TABLES))
    [problem] = report.problems
    assert problem.code == "state"
    assert "claims" in problem.message and "nobody's" in problem.message
    assert "rebuilt None" in problem.message


async def test_a_state_ahead_of_the_journal_is_a_problem():
    log = await recorded(1)
    state = state_of(log, 0)
    shorter = copy_of(log, lambda fact, raw: [raw], upto=20)
    report = verify(shorter, 0, APPLIERS, TABLES, CODEC, stored=state)
    assert report.problems[0].code == "standing"


def copy_of(log, change, upto=None):
    """A log of one partition whose journal is the other's, each fact changed."""
    copy = MemoryLog(1, cluster=log.cluster)
    writer = copy.writer(0)
    for record in log.read(JOURNAL, 0, 0, 10_000, upto):
        for raw in change(CODEC.decode(record.value), record.value):
            writer.commit([NewRecord(JOURNAL, 0, raw, timestamp_ms=record.timestamp_ms)])
    return copy


class Renumber:
    """Writes facts with their seq in order, so that only what a test changes is wrong."""

    def __init__(self, change):
        self.change = change
        self.seq = 0

    def __call__(self, fact, raw):
        for made in self.change(fact):
            self.seq += 1
            made.header.seq = self.seq
            yield CODEC.encode(made)


def twice(kind):
    def change(fact):
        yield fact
        if isinstance(fact, kind):
            yield fact

    return change


def without(kind):
    def change(fact):
        if not isinstance(fact, kind):
            yield fact

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (twice(facts.StepCompleted), "step-twice"),
        (twice(facts.WaitStood), None),
        (twice(facts.EventRecorded), None),
        (without(facts.EventRecorded), "journal"),
        (without(facts.Positions), "transaction"),
    ],
)
async def test_a_journal_that_breaks_a_rule_is_found_out(change, code):
    log = await recorded(1, events=1)
    found = verify_cluster(copy_of(log, Renumber(change)))
    codes = {problem.code for problem in found.problems}
    if code is not None:
        assert code in codes, found.problems
    elif change.__closure__[0].cell_contents is facts.EventRecorded:
        assert codes == {"journal"}  # its applier finds nobody who held it


async def test_a_lost_fact_is_a_gap():
    log = await recorded(1, events=1)
    kept = copy_of(log, lambda fact, raw: [] if isinstance(fact, facts.RunSuspended) else [raw])
    found = verify_cluster(kept)
    assert any("seq" in problem.message for problem in found.problems)


async def test_positions_may_not_go_back():
    log = await recorded(1, events=2)

    def change(fact):
        if isinstance(fact, facts.Positions):
            for moved in fact.inputs:
                if moved.topic == EVENTS and moved.next > 2:
                    moved.next = 1
        yield fact

    found = verify_cluster(copy_of(log, Renumber(change)))
    assert "position" in {problem.code for problem in found.problems}


async def test_a_run_from_an_event_that_was_not_offered_is_found_out():
    log = await recorded(1, events=1)

    def change(fact):
        if isinstance(fact, facts.EventRecorded):
            fact.homes = fact.homes[:1]
        yield fact

    found = verify_cluster(copy_of(log, Renumber(change)))
    assert "run-unasked" in {problem.code for problem in found.problems}
    assert not found.exactly_once


async def test_rebuilding_gives_the_state_anew(tmp_path):
    log = await recorded(1, advance="1s")
    path = tmp_path / "state"
    broken = State(RocksStore(path), TABLES)
    broken.put(CLAIMS, (1, "nobody's"), Claim("e", 1))
    broken.flush({})
    broken.close()
    told = []
    standing = rebuild(
        log,
        0,
        APPLIERS,
        TABLES,
        CODEC,
        lambda: RocksStore(path),
        batch=10,
        progress=lambda reached, end: told.append((reached, end)),
    )
    end = log.bounds(JOURNAL, 0)[1]
    assert standing.journal == end
    assert told[-1] == (end, end)
    state = State(RocksStore(path), TABLES)
    try:
        report = verify(
            log,
            0,
            APPLIERS,
            TABLES,
            CODEC,
            stored=state,
            open_scratch=lambda: RocksStore(tmp_path / "scratch"),
        )
    finally:
        state.close()
    assert report.ok, report.problems
    assert not (tmp_path / "scratch").exists()
