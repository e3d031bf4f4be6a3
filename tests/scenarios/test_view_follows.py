"""The view's queues are the engine's: under random loads of every control they stay equal.

What the view has of lanes, gates, places, windows, buffers and held firings is folded from
the facts alone; here it is compared with the state on which the engine decides.
"""

import random
import sqlite3

import pytest
from tests.api.facts import plain

from duraton import (
    BatchConfig,
    BudgetConfig,
    ConcurrencyConfig,
    DebounceConfig,
    PriorityConfig,
    SingletonConfig,
    ThrottleConfig,
    TogetherConfig,
    TokenThrottleConfig,
    define_workflow,
)
from duraton.testing import Engine, RefusedError
from duraton_api.view import View
from duraton_api.view.filters import EventFilter, RunFilter
from duraton_api.view.flow import lanes as flow_lanes
from duraton_api.view.flow import windows as flow_windows
from duraton_api.view.flow.line import line
from duraton_api.view.flow.reads import ScopeFilter
from duraton_engine.state import tables
from duraton_streams.logs.base import JOURNAL
from duraton_streams.state.table import scan_all

SEEDS = 16
RUN = "SELECT id FROM run_rows WHERE num = ?"
NAMES = ["a", "b", "c"]


async def model(tokens):
    return {"usage": {"prompt_tokens": tokens, "completion_tokens": 0}}


class Flows:
    """Makes workflows of random controls, whose events say what their runs do."""

    def __init__(self, chance):
        self.chance = chance
        self.engine = None
        self.sent = 0
        self.answers = {}

    async def work(self, seconds):
        if seconds:
            await self.engine.clock.sleep(seconds)

    async def handle(self, ctx):
        for n, (kind, what) in enumerate(ctx.event.data["do"]):
            if kind == "work":
                await ctx.step.run(f"s{n}", self.work, what)
            elif kind == "sleep":
                await ctx.step.sleep(f"s{n}", what * 1000)
            else:
                await ctx.step.ai.wrap(f"s{n}", model, what)
        if ctx.event.data.get("fail"):
            raise ValueError("as told")

    async def handle_failure(self, ctx):
        await ctx.step.run("tell", self.work, 1)

    def key(self):
        return self.chance.choice([None, "k", "x.y"])

    def controls(self):
        chance = self.chance
        made = {}
        if chance.random() < 0.6:
            made["concurrency"] = ConcurrencyConfig(chance.randint(1, 3), key=self.key())
        if chance.random() < 0.4:
            made["throttle"] = ThrottleConfig(chance.randint(1, 3), "7s", key=self.key())
        if chance.random() < 0.3:
            made["token_throttle"] = TokenThrottleConfig(100, "20s", key=self.key())
        if chance.random() < 0.4:
            then = chance.choice(["wait", "refuse", "stop", "join"])
            group = chance.choice([None, "g"])
            most = 2 if group else chance.randint(1, 2)
            made["together"] = TogetherConfig(max=most, then=then, group=group)
            made["key"] = self.key()
        if chance.random() < 0.4:
            mode = chance.choice(["skip", "cancel"])
            made["singleton"] = SingletonConfig(key=self.key(), mode=mode)
        if chance.random() < 0.3:
            made["budget"] = BudgetConfig(max_tokens=200, window_ms="30s")
        if chance.random() < 0.3:
            made["priority"] = PriorityConfig(chance.choice([-5_000, 20_000]))
        draw = chance.random()
        if draw < 0.3:
            made["debounce"] = DebounceConfig("3s", key=self.key())
        elif draw < 0.6:
            made["batch"] = BatchConfig(chance.randint(1, 4), "4s", key=self.key())
        return made

    def all(self):
        failing = self.chance.choice([None, self.handle_failure])
        return [
            define_workflow(name, self.handle, on_failure=failing, **self.controls())
            for name in NAMES
        ]

    def event(self):
        chance = self.chance
        kinds = [("work", [0, 1, 3]), ("sleep", [1, 4]), ("ai", [30, 250])]
        steps = []
        for _ in range(chance.randint(0, 3)):
            kind, values = chance.choice(kinds)
            steps.append([kind, chance.choice(values)])
        self.sent += 1
        data = {"n": self.sent, "do": steps, "fail": chance.random() < 0.2}
        if chance.random() < 0.8:
            data["k"] = chance.choice([1, 2, "1"])
        if chance.random() < 0.6:
            data["x"] = {"y": chance.choice(["p", "q\0r"])}
        return (chance.choice(NAMES), data)


def in_the_engine(engine):
    """What is compared, from the state of all partitions."""
    found = {"lanes": {}, "due": {}, "holding": {}, "windows": {}, "firings": {}, "rates": {}}
    found["lines"] = {}
    now = engine.clock.now_ms()
    for processor in engine.core.processors:
        state = processor.state
        for (_, app, flow, name), lane in scan_all(state, tables.LANES):
            rows = list(scan_all(state, tables.QUEUE, (_, app, flow, name)))
            queue = [row.run for _, row in rows]
            gate = lane.gate or "turn"
            found["lanes"][app, flow, name] = (gate, lane.count, lane.sort, queue)
            found["lines"].setdefault((app, flow, gate), []).append(
                [(lane.sort, lane.seq), [key[4:] for key, _ in rows], queue]
            )
        for key, timer in scan_all(state, tables.GATES):
            found["due"][key[1:]] = timer.due
        for key, count in scan_all(state, tables.COUNTS):
            found["holding"][key[1:]] = count.count
        for key, _ in scan_all(state, tables.OPEN):
            if key[3] == "singleton":
                found["holding"][key[1:5]] = found["holding"].get(key[1:5], 0) + 1
        for key, window in scan_all(state, tables.WINDOWS):
            found["windows"][key[1:]] = (window.opened_at, window.due, window.count, 0)
        for key, buffer in scan_all(state, tables.BUFFERS):
            shape = (buffer.opened_at, buffer.due, buffer.count, buffer.bytes)
            found["windows"][key[1:]] = shape
        for key, firing in scan_all(state, tables.FIRINGS):
            held = (firing.kind, firing.scope, firing.opened_at)
            found["firings"].setdefault(key[1:4], []).append(held)
        for key, throttle in scan_all(state, tables.THROTTLES):
            if throttle.next > now:
                found["rates"]["throttle", *key[1:]] = throttle.next
        for key, bucket in scan_all(state, tables.BUCKETS):
            if bucket.empty_at // 1_000_000 + bucket.per_ms > now:
                shape = (bucket.empty_at, bucket.tokens, bucket.per_ms)
                found["rates"]["tokenThrottle", *key[1:]] = shape
    for gate, lanes in found["lines"].items():
        found["lines"][gate] = turns(lanes)
    return found


def turns(lanes):
    """The order in which a gate's runs would start: always the first lane's first run.

    A lane is [its place in the line, its runs' places, its runs].
    """
    order = []
    while lanes:
        lane = min(lanes, key=lambda each: each[0])
        lane[1].pop(0)
        order.append(lane[2][len(lane[2]) - len(lane[1]) - 1])
        if lane[1]:
            sort, seq = lane[1][0]
            lane[0] = (sort - tables.SORT_BIAS, seq)
        else:
            lanes.remove(lane)
    return order


def in_the_view(engine):
    """The same, from the view's file."""
    found = {"lanes": {}, "due": {}, "holding": {}, "windows": {}, "firings": {}, "rates": {}}
    found["lines"] = {}
    now = engine.clock.now_ms()
    db = sqlite3.connect(f"file:{engine.core.view.path}?mode=ro", uri=True)
    gates = {}
    for row in db.execute("SELECT num, app, workflow, control, scope, due FROM scopes"):
        num, app, flow, control, scope, due = row
        gates[num] = (
            f"{control}\0{scope}" if control not in ("runner", "turn", "project") else control
        )
        if due is not None:
            found["due"][app, flow, gates[num]] = due
        order = [db.execute(RUN, (turn.run,)).fetchone()[0] for turn in line(db, num)]
        if order:
            found["lines"][app, flow, gates[num]] = order
    for num, app, flow, name, scope, count, sort in db.execute(
        "SELECT num, app, workflow, name, scope, count, sort FROM lanes"
    ):
        queue = db.execute(
            "SELECT r.id FROM queued q JOIN run_rows r ON r.num = q.run WHERE lane = ?"
            " ORDER BY q.sort, q.run",
            (num,),
        )
        found["lanes"][app, flow, name] = (gates[scope], count, sort, [run for (run,) in queue])
    for app, flow, control, scope, holding, held in db.execute(
        "SELECT app, workflow, control, scope, holding,"
        " (SELECT count(*) FROM holders h WHERE h.scope = num) FROM scopes WHERE holding > 0"
    ):
        assert holding == held
        found["holding"][app, flow, control, scope] = holding
    for app, flow, scope, *shape in db.execute(
        "SELECT app, workflow, scope, opened_at, due, count, bytes FROM windows"
        " WHERE status = 'open'"
    ):
        found["windows"][app, flow, scope] = tuple(shape)
    for app, flow, gate, *held in db.execute(
        "SELECT app, workflow, held, kind, scope, opened_at FROM windows"
        " WHERE status = 'held' ORDER BY held, hold"
    ):
        found["firings"].setdefault((app, flow, gates[gate]), []).append(tuple(held))
    for control, app, flow, scope, next_at, empty_at, tokens, per_ms, until in db.execute(
        "SELECT control, app, workflow, scope, next_at, empty_at, tokens, per_ms, until"
        " FROM scopes WHERE until > ?",
        (now,),
    ):
        shape = next_at if control == "throttle" else (empty_at, tokens, per_ms)
        assert until > now
        found["rates"][control, app, flow, scope] = shape
    check_sums(db)
    db.close()
    return found


def check_sums(db):
    """What is counted is what is there."""
    live = "status IN ('open', 'held')"
    for query, kind in (
        ("count(*) FROM run_rows WHERE json_extract(detail, '$.phase') = 'running'", "executing"),
        (f"count(*) FROM windows WHERE kind = 'debounce' AND {live}", "windows"),
        (f"count(*) FROM windows WHERE kind = 'batch' AND {live}", "buffers"),
        (f"ifnull(sum(count), 0) FROM windows WHERE kind = 'batch' AND {live}", "buffered"),
    ):
        for name in NAMES:
            counted = db.execute(
                "SELECT ifnull(sum(count), 0) FROM flow_counts"
                " WHERE app = 'test' AND workflow = ? AND kind = ?",
                (name, kind),
            ).fetchone()
            found = db.execute(f"SELECT {query} AND workflow = ?", (name,)).fetchone()
            assert found == counted, kind
    waiting = db.execute(
        "SELECT workflow, control, sum(waiting) FROM scopes WHERE waiting GROUP BY 1, 2"
    ).fetchall()
    counted = db.execute(
        "SELECT workflow, of, count FROM flow_counts WHERE kind = 'waiting' AND count <> 0"
    ).fetchall()
    assert sorted(waiting) == sorted(counted)
    for num, waits, lanes, firings in db.execute(
        "SELECT num, waiting, lanes, firings FROM scopes"
    ).fetchall():
        whole = list(line(db, num))
        assert len(whole) == waits
        for place, turn in enumerate(whole):
            assert list(line(db, num, turn)) == whole[place + 1 :]
        found = db.execute("SELECT count(*) FROM lanes WHERE scope = ?", (num,)).fetchone()
        held = db.execute("SELECT count(*) FROM windows WHERE held = ?", (num,)).fetchone()
        assert (found[0], held[0]) == (lanes, firings)


async def compare(engine):
    await engine.flow_state()  # which folds what is there
    there, shown = in_the_engine(engine), in_the_view(engine)
    for what, value in there.items():
        assert shown[what] == value, what


BECAME = {"run", "joined", "replaced", "refused", "superseded"}
"""What a window's or a buffer's event may have led to once that is over."""


async def check_events(engine, flows):
    """Each event tells what its POST was answered, and what came of it later."""
    for each in await engine.events():
        event = await engine.event(each.id)
        [led_to], answer = event.runs, flows.answers[event.data["n"]]
        if answer.buffered:
            assert led_to.outcome in BECAME
            if led_to.outcome != "replaced":  # which shares what its window led to
                assert (led_to.run_id is not None) == (led_to.outcome in ("run", "joined"))
            continue
        words = ("dropped", "deduped", "skipped", "refused", "joined")
        [said] = [word for word in words if getattr(answer, word)] or ["run"]
        assert (led_to.outcome, led_to.run_id) == (said, answer.run_id)
        assert (led_to.blocked_by, led_to.why is None) == (
            answer.blocked_by,
            answer.run_id is not None,
        )


async def happen(engine, flows, chance, runs):
    draw = chance.random()
    if draw < 0.5:
        events = [flows.event() for _ in range(chance.choice([1, 1, 2, 6]))]
        for (_, data), answers in zip(events, await engine.send_many(events), strict=True):
            runs += [answer.run_id for answer in answers if answer.run_id is not None]
            [flows.answers[data["n"]]] = answers
    elif draw < 0.6 and runs:
        try:
            act = chance.choice(["pause", "resume", "resume", "cancel"])
            await engine.act(chance.choice(runs), act)
        except RefusedError:
            pass
    elif draw < 0.62:
        await engine.set_ceiling(chance.choice([0, 1, 3]))
    elif draw < 0.65:
        await engine.register(flows.all())
    elif draw < 0.67:
        await engine.crash(down=chance.choice([None, "3s"]))
    else:
        await engine.advance(chance.choice([0, 300, 1000, 4000]))


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_the_views_queues_are_the_engines(seed, monkeypatch):
    chance = random.Random(seed)
    flows, runs = Flows(chance), []
    parts = {
        "partitions": chance.choice([1, 12]),
        "capacity": chance.choice([1, 3, 1000]),
        "transport": chance.choice(["connect", "serve"]),
    }
    async with Engine(*flows.all(), **parts) as engine:
        flows.engine = engine
        for _ in range(chance.randint(20, 50)):
            await happen(engine, flows, chance, runs)
            await compare(engine)
        await engine.set_ceiling(0)
        for run in await engine.runs(status="paused"):
            await engine.act(run.id, "resume")
        await engine.advance("10m")
        await compare(engine)
        assert [run for run in await engine.runs() if run.status == "queued"] == []
        await check_events(engine, flows)
        told = all_told(engine.core.view, engine)
        assert told["runs"] and told["events"] and told["event_runs"]
        for module in (flow_lanes, flow_windows):
            monkeypatch.setattr(module, "KEPT_MAX", chance.choice([0, 2, 20_000]))
        for view in again(engine, chance):
            assert view.positions() == engine.core.view.positions()
            assert all_told(view, engine) == told
            view.close()


def again(engine, chance):
    """Views of the same journal, folded in other pieces."""
    log, codec = engine.core.log, engine.core.codec
    for live_max in (None, 1):
        view = View(cluster=log.cluster, live_max=live_max)
        for partition in range(log.partitions):
            end = log.bounds(JOURNAL, partition)[1]
            records = log.read(JOURNAL, partition, 0, end or 1)
            facts = [(record.offset, codec.decode(record.value)) for record in records]
            while facts:
                size = chance.choice([1, 2, 7, 100])
                view.feed(partition, facts[:size])
                view.drain()
                del facts[:size]
        yield view
    view = View(log=log)
    view.rebuild()
    yield view


def all_told(view, engine):
    """All that a view answers."""
    reads, now = view.reads, engine.clock.now_ms()
    runs = reads.runs(RunFilter(kind=None, limit=500)).runs
    detail = reads.flow_detail(ScopeFilter(limit=500), now)
    return {
        "runs": {run.id: plain(reads.run(run.id)) for run in runs},
        "events": [plain(event) for event in reads.events(EventFilter(limit=500)).events],
        "state": plain(reads.flow_state()),
        "detail": plain(detail),
        "starts": [plain(reads.flow_detail(ScopeFilter(workflow=name), now)) for name in NAMES],
        "counts": sorted(reads.flow_counts()),
        "event_runs": sorted(view.sql("SELECT * FROM event_runs").rows, key=str),
    }
