"""What the view shows of flow control: why runs wait, who holds what, what events led to."""

import pytest
from tests.api.facts import APP, FLOW, Journal, plain

from duraton import (
    App,
    BatchConfig,
    ConcurrencyConfig,
    DebounceConfig,
    IdempotencyConfig,
    PriorityConfig,
    RateLimitConfig,
    SingletonConfig,
    ThrottleConfig,
    TogetherConfig,
    TokenThrottleConfig,
    define_workflow,
)
from duraton.testing import Engine
from duraton_api.errors import BadParameterError
from duraton_api.view import View
from duraton_api.view.cursors import write_cursor, write_texts
from duraton_api.view.flow.reads import ScopeFilter
from duraton_schemas.records import journal as j
from duraton_schemas.records.common import Scopes

SECOND = "2026-01-01T00:00:{:02d}.000Z".format


class Work:
    """Workflows whose one step takes 60 seconds, or as long as its event's `s` says."""

    engine = None

    async def handle(self, ctx):
        data = ctx.event.data
        if "tokens" in data:
            await ctx.step.ai.wrap("ask", self.model, data["tokens"])
        await ctx.step.run("work", self.step, data.get("s", 60))

    async def step(self, seconds):
        await self.engine.clock.sleep(seconds)

    async def model(self, tokens):
        return {"usage": {"prompt_tokens": tokens, "completion_tokens": 0}}

    def flow(self, name="w", **controls):
        return define_workflow(name, self.handle, **controls)

    def start(self, *apps, **more):
        self.engine = Engine(*apps, **more)
        return self.engine


@pytest.fixture
def work():
    return Work()


async def runs_of(engine, *datas, name="w", **more):
    return [(await engine.send(name, data, **more))[0].run_id for data in datas]


async def waiting(engine, run):
    """Why a run waits, once list, detail and SQL have said the same."""
    detail = (await engine.run(run)).waiting_for
    [listed] = [each for each in await engine.runs() if each.id == run]
    assert listed.waiting_for == detail
    query = "SELECT waiting_for, waiting_key, waiting_value FROM runs WHERE id = '{}'"
    [[kind, path, value]] = engine.core.view.sql(query.format(run)).rows
    if detail is None:
        assert kind is None
        return None
    assert kind == detail.kind
    if value is not None:
        assert (path, value) == (detail.key, detail.value)
    return dict(detail)


# Why runs wait ----------------------------------------------------------------------


async def test_a_run_waits_for_a_place_of_its_key(work):
    limit = ConcurrencyConfig(2, key="user.id")
    async with work.start(work.flow(concurrency=limit)) as engine:
        ada = {"user": {"id": "ada"}}
        *_, third = await runs_of(engine, ada, ada, ada)
        *_, lost = await runs_of(engine, {}, {}, {})
        assert await waiting(engine, third) == {
            "kind": "concurrency", "key": "user.id", "value": "ada", "limit": 2,
        }  # fmt: skip
        # Its key does not resolve: it shares the bucket of all of these (P2).
        assert await waiting(engine, lost) == {
            "kind": "concurrency", "key": "user.id", "limit": 2,
        }  # fmt: skip
        await engine.advance("60s")
        assert await waiting(engine, third) is None


async def test_a_limit_is_shown_as_it_is_stated_now(work):
    async with work.start(work.flow(concurrency=ConcurrencyConfig(1))) as engine:
        _, second, third = await runs_of(engine, {}, {}, {})
        assert (await waiting(engine, third))["limit"] == 1
        await engine.register(work.flow(concurrency=ConcurrencyConfig(2)))
        assert await waiting(engine, second) is None
        assert await waiting(engine, third) == {"kind": "concurrency", "limit": 2}
        await engine.register(work.flow())
        assert await waiting(engine, third) is None


async def test_a_throttled_run_says_when_the_next_starts(work):
    async with work.start(work.flow(throttle=ThrottleConfig(1, "10s", key="k"))) as engine:
        first, second, third = await runs_of(engine, {"k": 1}, {"k": 1}, {"k": 1})
        assert await waiting(engine, first) is None
        told = {"kind": "throttle", "until": SECOND(10), "key": "k", "value": "1"}
        assert await waiting(engine, second) == await waiting(engine, third) == told
        await engine.advance("10s")
        assert await waiting(engine, second) is None
        assert await waiting(engine, third) == {**told, "until": SECOND(20)}


async def test_a_run_waits_for_its_bucket_of_tokens(work):
    bucket = TokenThrottleConfig(100, "10s", key="k")
    async with work.start(work.flow(token_throttle=bucket)) as engine:
        await runs_of(engine, {"k": 1, "tokens": 400})
        await engine.settle()
        [run] = await runs_of(engine, {"k": 1})
        told = await waiting(engine, run)
        assert (told["kind"], told["key"], told["value"]) == ("tokenThrottle", "k", "1")
        assert told["until"] == "2026-01-01T00:00:30.001Z"
        [scope] = (await engine.flow_detail("w", control="tokenThrottle")).scopes
        assert (scope.tokens, scope.per_ms, scope.level) == (100, 10_000, -300)
        assert (scope.next_start_at, scope.waiting) == (told["until"], 1)
        await engine.advance("5s")
        [scope] = (await engine.flow_detail("w", control="tokenThrottle")).scopes
        assert scope.level == -250


async def test_together_counts_by_the_subject_where_there_is_no_key(work):
    async with work.start(work.flow(together=TogetherConfig(max=1))) as engine:
        await runs_of(engine, {}, subject="row/7")
        [second] = await runs_of(engine, {}, subject="row/7")
        assert await waiting(engine, second) == {"kind": "together", "value": "row/7", "limit": 1}


async def test_what_a_lane_waits_for_holds_for_all_its_runs(work):
    # The throttle lets one start in ten seconds; then the place is taken, for all of them.
    flow = work.flow(throttle=ThrottleConfig(1, "10s"), concurrency=ConcurrencyConfig(1))
    async with work.start(flow) as engine:
        runs = await runs_of(engine, *[{}] * 4)
        assert {(await waiting(engine, run))["kind"] for run in runs[1:]} == {"throttle"}
        await engine.advance("10s")
        assert {(await waiting(engine, run))["kind"] for run in runs[1:]} == {"concurrency"}
        # Who comes now joins the lane, and waits for what it waits for.
        [late] = await runs_of(engine, {})
        assert (await waiting(engine, late))["kind"] == "concurrency"


async def test_a_run_waits_for_room_at_a_runner(work):
    async with work.start(work.flow(), capacity=1) as engine:
        _, second = await runs_of(engine, {}, {})
        assert await waiting(engine, second) == {"kind": "runner"}


async def test_a_paused_run_waits_for_nobody(work):
    async with work.start(work.flow(concurrency=ConcurrencyConfig(1))) as engine:
        _, second, third = await runs_of(engine, {}, {}, {})
        await engine.act(second, "pause")
        shown = await engine.run(second)
        assert (shown.status, shown.waiting_for) == ("paused", None)
        [scope] = (await engine.flow_detail("w", control="concurrency")).scopes
        assert [each.id for each in scope.line] == [third]
        await engine.act(second, "resume")
        [scope] = (await engine.flow_detail("w", control="concurrency")).scopes
        assert [each.id for each in scope.line] == [second, third]
        assert (await waiting(engine, second))["kind"] == "concurrency"


async def test_an_on_failure_execution_waits_for_room_alone(work):
    async def fail(ctx):
        raise ValueError("no")

    flow = define_workflow(
        "w", fail, on_failure=work.handle, concurrency=ConcurrencyConfig(1), throttle=None
    )
    async with work.start(flow, work.flow(name="other"), capacity=1) as engine:
        [busy] = await runs_of(engine, {}, name="other")
        [failed] = await runs_of(engine, {})
        await engine.advance("60s")
        assert (await engine.run(busy)).status == "completed"
        handler = (await engine.run(failed)).on_failure
        [later] = await runs_of(engine, {"s": 0})
        assert (await engine.run(handler.id)).status == "running"
        assert (await waiting(engine, later))["kind"] == "runner"


# Scope by scope ---------------------------------------------------------------------


async def test_a_scope_shows_who_holds_it_and_who_waits_in_what_order(work):
    flow = work.flow(concurrency=ConcurrencyConfig(2, key="k"))
    async with work.start(flow) as engine:
        runs = await runs_of(engine, *[{"k": "a"}] * 5)
        [scope] = (await engine.flow_detail()).scopes
        assert {**scope, "holders": None, "line": None} == {
            "app": "test",
            "workflow": "w",
            "control": "concurrency",
            "key": "k",
            "value": "a",
            "why": "2 of 2 runs execute",
            "limit": 2,
            "inUse": 2,
            "holders": None,
            "waiting": 3,
            "line": None,
        }
        assert [(each.id, each.status) for each in scope.holders] == [
            (run, "running") for run in runs[:2]
        ]
        assert [(each.id, each.status) for each in scope.line] == [
            (run, "queued") for run in runs[2:]
        ]
        await engine.advance("2m")
        await engine.advance("2m")
        assert (await engine.flow_detail()).scopes == []


async def test_a_line_and_the_list_of_scopes_come_in_pages(work):
    flows = [
        work.flow(
            name=name,
            key="k",
            concurrency=ConcurrencyConfig(1),
            together=TogetherConfig(max=1_000),
        )
        for name in ("a", "b")
    ]
    async with work.start(*flows) as engine:
        # Every key of together is a lane of its own, all before one gate.
        runs = await runs_of(engine, *[{"k": n % 5} for n in range(31)], name="a")
        await runs_of(engine, {"k": 1}, {"k": 1}, name="b")
        detail = await engine.flow_detail("a", control="concurrency")
        [scope] = detail.scopes
        assert (scope.waiting, detail.cursor) == (30, None)
        seen = [each.id for each in scope.line]
        while scope.cursor is not None:
            [scope] = (await engine.flow_detail(cursor=scope.cursor, limit=7)).scopes
            seen += [each.id for each in scope.line]
        assert seen == runs[1:]

        whole = (await engine.flow_detail()).scopes
        found, cursor = [], None
        while True:
            page = await engine.flow_detail(limit=1, cursor=cursor)
            found += page.scopes
            cursor = page.cursor
            if cursor is None:
                break
        assert found == whole
        assert [(each.workflow, each.control) for each in whole] == [
            ("a", "concurrency"), ("a", "together"), ("b", "concurrency"), ("b", "together"),
        ]  # fmt: skip
        assert (await engine.flow_detail(app="other")).scopes == []
        assert (await engine.flow_detail("nobody")).scopes == []


async def test_throttles_say_when_the_next_start_is_until_it_may_be_now(work):
    async with work.start(work.flow(throttle=ThrottleConfig(2, "20s", key="k"))) as engine:
        await runs_of(engine, {"k": 1}, {"k": 2}, {"k": 2})
        one, two = (await engine.flow_detail("w")).scopes
        assert (one.value, one.waiting, one.next_start_at) == ("1", None, SECOND(10))
        assert (two.value, two.waiting, two.next_start_at) == ("2", 1, SECOND(10))
        assert two.why == "one start every 10000 ms"
        await engine.advance("10s")
        [two] = (await engine.flow_detail("w")).scopes
        assert (two.value, two.next_start_at) == ("2", SECOND(20))
        await engine.advance("10s")
        assert (await engine.flow_detail("w")).scopes == []
        # What has expired is swept with the engine's own keys.
        await engine.advance("10m")
        assert (await engine.flow_state())["concurrency"]["inUse"] == 0
        assert engine.core.view.sql("SELECT * FROM scopes").rows == []


async def test_windows_show_their_age(work):
    flows = [
        work.flow(name="d", debounce=DebounceConfig("10s", key="k")),
        work.flow(name="b", batch=BatchConfig(5, "1m")),
    ]
    async with work.start(*flows) as engine:
        await engine.send("d", {"k": 1})
        await engine.send("b", {})
        await engine.advance("9s")
        await engine.send("d", {"k": 1})
        await engine.send("b", {})
        batch, debounce = (await engine.flow_detail()).scopes
        assert (debounce.control, debounce.key, debounce.value) == ("debounce", "k", "1")
        assert (debounce.age_ms, debounce.opened_at, debounce.due_at, debounce.count) == (
            9_000, SECOND(0), SECOND(19), 2,
        )  # fmt: skip
        assert (batch.control, batch.count, batch.limit) == ("batch", 2, 5)
        assert (batch.due_at, batch.bytes) == ("2026-01-01T00:01:00.000Z", 4)


async def test_a_held_firing_is_shown_where_it_is_held(work):
    flow = work.flow(debounce=DebounceConfig("1s"), singleton=SingletonConfig())
    async with work.start(flow) as engine:
        await engine.send("w", {"n": 1})
        await engine.advance("1s")
        [live] = await engine.runs()
        await engine.send("w", {"n": 2})
        await engine.advance("1s")
        [scope] = (await engine.flow_detail()).scopes
        assert (scope.control, scope.mode, scope.firings) == ("singleton", "skip", 1)
        assert [each.id for each in scope.holders] == [live.id]
        assert [(each.kind, each.events) for each in scope.held] == [("debounce", 1)]
        [row] = (await engine.flow_state())["debounce"]
        # It counts, and has no time at which it fires (P47).
        assert (row["pending"], row["nextFireAt"]) == (1, None)
        newest, _ = await engine.events("w")
        [led_to] = newest.runs
        assert (led_to.outcome, led_to.run_id) == ("buffered", None)
        assert "held until its key is free" in led_to.why
        await engine.advance("1m")
        assert (await engine.flow_state())["debounce"] == []
        [led_to] = (await engine.event(newest.id)).runs
        assert (led_to.outcome, led_to.status) == ("run", "running")


# What events led to -----------------------------------------------------------------


async def led_to(engine, name="w"):
    """(outcome, run) of each event of a name, oldest first."""
    events = [await engine.event(each.id) for each in reversed(await engine.events(name))]
    query = "SELECT outcome, e.run, blocked_by FROM event_runs e JOIN events v ON v.num = e.event"
    found = []
    for event in events:
        [one] = event.runs
        [row] = engine.core.view.sql(f"{query} WHERE v.id = '{event.id}'").rows
        assert row == [one.outcome, one.run_id, one.blocked_by]
        [listed] = [each.runs for each in await engine.events(name) if each.id == event.id]
        assert listed == event.runs
        found.append((one.outcome, one.run_id))
    return found


async def test_each_event_of_a_batch_led_to_its_run(work):
    async with work.start(work.flow(batch=BatchConfig(3, "10s"))) as engine:
        await engine.send_many([("w", {})] * 2)
        assert await led_to(engine) == [("buffered", None)] * 2
        newest, _ = await engine.events()
        assert SECOND(10) in newest.runs[0].why
        await engine.send("w", {})
        [run] = await engine.runs()
        assert await led_to(engine) == [("run", run.id)] * 3
        shown = await engine.run(run.id)
        assert len(shown.triggers) == 3 and shown.triggers[2].data == {}


async def test_the_events_that_a_window_replaced_share_what_it_became(work):
    async with work.start(work.flow(debounce=DebounceConfig("5s"))) as engine:
        for n in range(3):
            await engine.send("w", {"n": n})
        assert await led_to(engine) == [("buffered", None)] * 3
        await engine.advance("5s")
        [run] = await engine.runs()
        assert await led_to(engine) == [("replaced", run.id)] * 2 + [("run", run.id)]
        assert (await engine.run(run.id)).trigger.data == {"n": 2}


async def test_a_superseded_firing_tells_so(work):
    flow = work.flow(debounce=DebounceConfig("1s", key="k"), singleton=SingletonConfig())
    async with work.start(flow) as engine:
        for _ in range(3):
            await engine.send("w", {"k": 1})
            await engine.advance("2s")
        first, second, third = await led_to(engine)
        assert (first[0], second, third) == ("run", ("superseded", None), ("buffered", None))
        event = (await engine.events())[1]
        assert event.why.startswith("test/w superseded: its window fired and was held")
        starts = (await engine.flow_detail("w")).starts
        assert [(each.workflow, each.superseded, each.dropped) for each in starts] == [("w", 1, 0)]


async def test_declined_starts_say_why_and_are_counted(work):
    flows = [
        work.flow(name="i", idempotency=IdempotencyConfig("k", "1h")),
        work.flow(name="r", rate_limit=RateLimitConfig(1, "1h")),
        work.flow(name="s", singleton=SingletonConfig()),
        work.flow(name="t", together=TogetherConfig(max=1, then="refuse")),
    ]
    async with work.start(*flows) as engine:
        for name in "irst":
            await engine.send_many([(name, {"k": 1})] * 2)
        for name, outcome in (
            ("i", "deduped"), ("r", "dropped"), ("s", "skipped"), ("t", "refused"),
        ):  # fmt: skip
            (first, run), second = await led_to(engine, name)
            assert (first, second) == ("run", (outcome, None))
            newest, _ = await engine.events(name)
            [one] = newest.runs
            assert one.blocked_by == (run if outcome == "skipped" else None)
            assert newest.why == f"test/{name} {outcome}: {one.why}"
            [starts] = (await engine.flow_detail(name)).starts
            assert starts[outcome] == 1


async def test_nothing_of_another_callers_run_is_told(work):
    flow = work.flow(together=TogetherConfig(then="join"), key="order")
    async with work.start(flow) as engine:
        [run] = await runs_of(engine, {"order": 7}, key="shop")
        await engine.send("w", {"order": 7}, key="shop")
        await engine.send("w", {"order": 7}, key="stranger")
        assert await led_to(engine) == [("run", run), ("joined", run), ("refused", None)]
        foreign, own, _ = await engine.events()
        # No id, no state, no time, no input (P26).
        assert set(foreign.runs[0]) == {"app", "workflow", "outcome", "runId", "status", "why"}
        assert foreign.runs[0].status is None
        assert run not in str(dict(foreign)) and "T00:" not in foreign.runs[0].why
        assert own.runs[0].status == "running"
        assert (await engine.run(run)).joined == 1
        kinds = [type(fact).__name__ for fact in engine.facts(run)]
        assert "StartJoined" in kinds


async def test_workflows_of_one_event_are_told_apart(work):
    flows = [
        work.flow(name="a", triggers=["e"], singleton=SingletonConfig()),
        work.flow(name="b", triggers=["e"], debounce=DebounceConfig("5s")),
        work.flow(name="c", triggers=["e"]),
    ]
    async with work.start(App("one", flows[:2]), App("two", flows[2:])) as engine:
        await engine.send_many([("e", {})] * 2)
        newest, _ = await engine.events("e")
        told = [(each.app, each.workflow, each.outcome) for each in newest.runs]
        assert told == [("one", "a", "skipped"), ("one", "b", "buffered"), ("two", "c", "run")]
        assert newest.why is None


# Totals -------------------------------------------------------------------------------


async def test_executing_runs_are_counted_whatever_their_status(work):
    async def wait(ctx):
        await ctx.step.sleep("nap", "1m")

    flows = [work.flow(priority=PriorityConfig(1_000)), define_workflow("asleep", wait)]
    async with work.start(*flows) as engine:
        [busy] = await runs_of(engine, {})
        await runs_of(engine, {}, name="asleep")
        await engine.settle()
        await engine.act(busy, "pause")
        # Paused, it still executes its step; a run that sleeps does not.
        assert (await engine.run(busy)).status == "paused"
        assert (await engine.flow_state())["concurrency"] == {"limit": 0, "inUse": 1}
        assert await engine.flow_state("nobody") == {
            "debounce": [], "batch": [], "concurrency": {"limit": 0, "inUse": 1},
        }  # fmt: skip
        await engine.advance("1m")
        assert (await engine.flow_state())["concurrency"]["inUse"] == 0


@pytest.fixture
def journal():
    return Journal()


@pytest.fixture
def view():
    made = View(":memory:")
    yield made
    made.close()


def fed(view, journal):
    view.feed(0, journal.new())
    view.drain()


def test_the_ceiling_is_the_registrys_newest(view, journal):
    assert view.reads.ceiling() == 0
    for version, body in ((3, '{"ceiling":50}'), (2, '{"ceiling":7}')):
        entry = j.RegistryChanged(version=version, kind="project", key="project", body=body)
        journal.emit(entry)
    run = journal.run_id("event")
    journal.event()
    journal.emit(j.RunQueued(run=run, created=journal.created(), gate="project"))
    fed(view, journal)
    assert view.reads.ceiling() == 50
    assert plain(view.reads.flow_state())["concurrency"] == {"limit": 50, "inUse": 0}
    assert plain(view.reads.run(run))["waitingFor"] == {"kind": "project", "limit": 50}
    journal.emit(
        j.RegistrationApplied(version=4, kind="project", key="project", body='{"ceiling":0}')
    )
    fed(view, journal)
    assert view.reads.ceiling() == 0
    assert plain(view.reads.run(run))["waitingFor"] == {"kind": "project"}


def test_facts_about_what_is_not_known_change_nothing(view, journal):
    # As where retention has taken the facts before.
    of = {"app": APP, "workflow": FLOW}
    for fact in (
        j.LaneMoved(**of, lane="gone", gate="runner", sort=1),
        j.GateArmed(**of, gate="throttle\0", due=5),
        j.LanesReviewed(**of),
        j.RunsRescoped(**of, runs=[j.RunScopes(run="run_gone")]),
        j.WindowFired(**of, scope=""),
        j.BufferFlushed(**of, scope="", why="time"),
        j.FiringReleased(**of, gate="singleton\0", number=3),
        j.BucketsRated(**of, tokens=1, per_ms=1),
        j.KeysExpired(until=9, most=10),
    ):
        journal.emit(fact)
    run = journal.queued()
    journal.emit(journal.start(run))
    fed(view, journal)
    assert view.reads.run(run).status == "running"
    assert view.reads.flow_detail(ScopeFilter(), 0).scopes == []
    assert view.sql("SELECT * FROM scopes").rows == []


def test_a_run_as_it_stood_waits_for_what_its_fact_says(journal):
    from duraton_api.view.at import run_at
    from duraton_api.view.render import NO_EVENT, folded_detail

    view = View(":memory:")
    run = journal.run_id("event")
    journal.event()
    queued = j.RunQueued(run=run, created=journal.created(), gate="throttle\0k\0v", due=5_000)
    journal.emit(queued)
    journal.emit(journal.start(run))
    fed(view, journal)
    now, _ = view.reads.state(run)
    fold, output = run_at(journal.facts, now, queued.seq)
    told = plain(folded_detail(fold, output, NO_EVENT))["waitingFor"]
    assert told == {
        "kind": "throttle", "until": "1970-01-01T00:00:05.000Z", "key": "k", "value": "v",
    }  # fmt: skip
    view.close()


@pytest.mark.parametrize(
    "cursor",
    [
        "?",
        "WzFd",
        write_cursor(1, 2),
        write_texts("a"),
        write_texts(APP, FLOW, "concurrency", "", "1"),
        write_texts(APP, FLOW, "concurrency", "", "1", "2", "3", "x"),
        write_texts(APP, FLOW, "concurrency", "", "1", "2", "3", str(1 << 70)),
    ],
)
def test_cursors_of_others_are_refused(view, journal, cursor):
    created = journal.event() and journal.created(scopes=Scopes(concurrency=""))
    journal.emit(j.RunQueued(run=journal.run_id("e"), created=created, gate="concurrency\0"))
    fed(view, journal)
    with pytest.raises(BadParameterError):
        view.reads.flow_detail(ScopeFilter(cursor=cursor), 0)
