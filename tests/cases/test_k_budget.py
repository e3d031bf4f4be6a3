"""Section K of the cases, the engine's part: budget and token throttle.

120 to 127, the cap of one run, are in test_k_ai.py; here is 128 (b), which carries results
into another run. Times are seconds since the start.
"""

from case_tools import runs_of, send, status
from flow_tools import (
    advance_to,
    assert_at,
    in_use,
    scripted,
    seconds_of,
    send_at,
    starts,
    statuses,
)

from duraton import BudgetConfig, CapConfig, TokenThrottleConfig

HOUR = 3600
MINUTE = 60


def budgeted(tokens=6_000):
    """A workflow with a budget of so many tokens an hour; None for no budget."""
    if tokens is None:
        return scripted()
    return scripted(budget=BudgetConfig(max_tokens=tokens, window_ms="1h"))


SPENDER = {
    "do": [
        ["ai", 4_000],
        ["sleep", 30 * MINUTE + 5],
        ["ai", 3_000],
        ["sleep", 5 * MINUTE],
        ["work", 0],
    ]
}
"""Spends 4,000 tokens at 0:00 and 3,000 at 30:05, and wants to go on at 35:05."""


def napping(seconds):
    """A run that sleeps so long and then works."""
    return {"do": [["sleep", seconds], ["work", 0]]}


async def held_by(engine, run):
    """Why a run is paused, all reasons; an empty set where it is not."""
    paused = (await engine.run(run)).paused_by
    return set() if paused is None else set(paused.reasons)


async def test_case_128_retry_from_step_carries_results_not_spend(engine_of):
    # (b): the recorded calls are not made again and the spend starts at 0, so that the
    # third call is made under the old cap.
    workflow = scripted(cap=CapConfig(max_tokens=1_000))
    async with engine_of(workflow) as engine:
        halted = await send(engine, "w", {"do": [["ai", 600], ["ai", 400], ["ai", 10]]})
        await engine.settle()
        shown = await engine.run(halted)
        assert (shown.status, shown.error.name) == ("failed", "BudgetError")
        assert shown.spend.tokens == 1_000
        assert runs_of(engine, "ai-3") == []
        await engine.advance("1m")
        again = await engine.act(halted, "retry-from-step", step="ai-3")
        await engine.settle()
        assert again.id != halted
        shown = await engine.run(again.id)
        assert (shown.status, shown.spend.tokens) == ("completed", 10)
        assert [(run, step) for run, step, _, _ in engine.executions] == [
            (halted, "ai-1"),
            (halted, "ai-2"),
            (again.id, "ai-3"),
        ]
        assert await status(engine, halted) == "failed"


async def test_case_130_hands_stay_stronger_than_the_budget(engine_of):
    async with engine_of(budgeted()) as engine:
        a = await send(engine, "w", napping(20 * MINUTE))
        b = await send(engine, "w", napping(35 * MINUTE))
        do = [["sleep", 40 * MINUTE], ["work", 0], ["sleep", 20 * MINUTE], ["work", 0]]
        c = await send(engine, "w", {"do": do})
        d = await send(engine, "w", SPENDER)
        await advance_to(engine, 10 * MINUTE)
        await engine.act(a, "pause")
        await advance_to(engine, 30 * MINUTE + 5)
        assert await held_by(engine, b) == await held_by(engine, c) == set()
        await advance_to(engine, 30 * MINUTE + 10)
        assert await held_by(engine, a) == {"manual", "budget"}
        assert (await engine.run(a)).paused_by.reason == "manual"
        for run in (b, c, d):
            shown = await engine.run(run)
            assert (shown.status, shown.paused_by.reason) == ("paused", "budget")
        await advance_to(engine, 40 * MINUTE)
        await engine.act(b, "pause")
        assert (await engine.run(b)).paused_by.reason == "manual"
        await advance_to(engine, 45 * MINUTE)
        await engine.act(c, "resume")
        await advance_to(engine, HOUR - 1)
        # Its sleep was over at 40:00, and it went on when it was let.
        assert runs_of(engine, "work-2", c) == [45 * MINUTE]
        facts = len(engine.facts(c))
        await advance_to(engine, HOUR + 10)
        # At 60:00 the 4,000 of 0:00 leave the window and 3,000 remain.
        assert len(engine.facts(c)) == facts
        assert await statuses(engine, a, b, c, d) == ["paused", "paused", "waiting", "completed"]
        assert await held_by(engine, a) == await held_by(engine, b) == {"manual"}
        [at] = runs_of(engine, "work-5", d)
        assert HOUR <= at <= HOUR + 10
        await engine.act(a, "resume")
        await engine.act(b, "resume")
        await engine.advance("1h")
        assert await statuses(engine, a, b, c, d) == ["completed"] * 4
        assert runs_of(engine, "work-4", c) == [65 * MINUTE]


async def test_case_130_raising_the_budget_resumes_nobody_whom_a_person_paused(engine_of):
    async with engine_of(budgeted()) as engine:
        a = await send(engine, "w", napping(20 * MINUTE))
        b = await send(engine, "w", napping(35 * MINUTE))
        d = await send(engine, "w", SPENDER)
        await advance_to(engine, 10 * MINUTE)
        await engine.act(a, "pause")
        await advance_to(engine, 40 * MINUTE)
        await engine.act(b, "pause")
        await advance_to(engine, 50 * MINUTE)
        assert await held_by(engine, d) == {"budget"}
        await engine.register(budgeted(10_000))
        await engine.advance("10s")
        assert await statuses(engine, a, b, d) == ["paused", "paused", "completed"]
        assert await held_by(engine, a) == await held_by(engine, b) == {"manual"}
        await advance_to(engine, 2 * HOUR)
        assert await statuses(engine, a, b) == ["paused", "paused"]


async def test_case_131_turning_a_budget_on_counts_what_was_already_spent(engine_of):
    async with engine_of(budgeted(None)) as engine:
        sleeper = await send(engine, "w", napping(2 * HOUR))
        spender = await send(engine, "w", {"do": [["ai", 7_000], ["sleep", 2 * HOUR]]})
        await advance_to(engine, 30 * MINUTE)
        assert await statuses(engine, sleeper, spender) == ["waiting", "waiting"]
        # The case says at the next tick; a redeploy that changes the budget is one (P30).
        await engine.register(budgeted())
        await engine.settle()
        assert await held_by(engine, sleeper) == await held_by(engine, spender) == {"budget"}
        await advance_to(engine, HOUR + 10)
        assert await statuses(engine, sleeper, spender) == ["waiting", "waiting"]


async def test_case_131_not_what_was_spent_before_the_window(engine_of):
    async with engine_of(budgeted(None)) as engine:
        sleeper = await send(engine, "w", napping(2 * HOUR))
        await send(engine, "w", {"do": [["ai", 7_000]]})
        await advance_to(engine, HOUR + 1)
        await engine.register(budgeted())
        await engine.advance("1m")
        assert await status(engine, sleeper) == "waiting"


async def test_case_132_raising_the_budget_resumes_at_the_next_tick(engine_of):
    # Three processes in the case: the budget is judged at the workflow's home alone, and
    # the redeploy itself is a tick there (P30).
    async with engine_of(budgeted()) as engine:
        runs = [await send(engine, "w", napping(n * MINUTE)) for n in (30.25, 30.5, 45)]
        spender = await send(engine, "w", SPENDER)
        await advance_to(engine, 31 * MINUTE)
        for run in (*runs, spender):
            assert await held_by(engine, run) == {"budget"}
        await engine.register(budgeted(10_000))
        await engine.advance("10s")
        for run in (*runs, spender):
            assert await held_by(engine, run) == set()
        for run in runs[:2]:
            [at] = runs_of(engine, "work-2", run)
            assert 31 * MINUTE <= at <= 31 * MINUTE + 10
        await engine.advance("1h")
        assert runs_of(engine, "work-2", runs[2]) == [45 * MINUTE]
        assert await statuses(engine, *runs, spender) == ["completed"] * 4
        assert len(engine.executions) == len(set(engine.executions)) == 6


async def test_case_133_no_bouncing_after_a_manual_override(engine_of):
    async with engine_of(budgeted()) as engine:
        do = [["sleep", 41 * MINUTE], ["ai", 10], ["sleep", MINUTE], ["work", 0]]
        a = await send(engine, "w", {"do": do})
        await send(engine, "w", SPENDER)
        await advance_to(engine, 40 * MINUTE)
        assert await held_by(engine, a) == {"budget"}
        await engine.act(a, "resume")
        for second in (40 * MINUTE + 10, 40 * MINUTE + 20, 41 * MINUTE - 1):
            await advance_to(engine, second)
            assert await status(engine, a) == "waiting"
        await advance_to(engine, 41 * MINUTE)
        assert runs_of(engine, "ai-2", a) == [41 * MINUTE]
        # It spent while over budget, so it is no longer exempt (P31).
        await engine.advance("10s")
        assert await held_by(engine, a) == {"budget"}
        await advance_to(engine, 50 * MINUTE)
        assert runs_of(engine, "work-4", a) == []
        # Whether it was held before or within its last sleep is open.
        await advance_to(engine, HOUR + 10 + MINUTE)
        [at] = runs_of(engine, "work-4", a)
        assert HOUR <= at <= HOUR + 10 + MINUTE


async def test_case_134_new_starts_while_over_budget(engine_of):
    async with engine_of(budgeted()) as engine:
        spender = await send(engine, "w", SPENDER)
        await advance_to(engine, 35 * MINUTE)
        late = await send(engine, "w", {"do": [["work", 0]]})
        await engine.settle()
        shown = await engine.run(late)
        assert (shown.status, shown.paused_by.reason) == ("paused", "budget")
        assert shown.paused_by.reasons == ["budget"]
        await advance_to(engine, HOUR - 1)
        assert runs_of(engine, "work-1", late) == []
        assert await in_use(engine) == 0
        await advance_to(engine, HOUR + 10)
        [at] = runs_of(engine, "work-1", late)
        assert HOUR <= at <= HOUR + 10
        assert runs_of(engine, "work-5", spender) == [at]
        assert await statuses(engine, late, spender) == ["completed", "completed"]


def throttled(tokens=1_000):
    return scripted(token_throttle=TokenThrottleConfig(tokens, 60_000, key="userId"))


def user(name, *do):
    return {"userId": name, "do": list(do)}


async def test_case_135_the_debt_sets_the_next_start(engine_of):
    async with engine_of(throttled()) as engine:
        await send_at(engine, (0, user("u1", ["work", 1], ["ai", 3_000])))
        waits, goes = await send_at(engine, (2, user("u1")), (2, user("u2")))
        await engine.settle()
        assert await statuses(engine, waits.run_id, goes.run_id) == ["queued", "completed"]
        assert await in_use(engine) == 0
        await engine.advance("1h")
        # 1,000 - 3,000 at 1, and 1,000 a minute.
        assert [run for _, run, _ in engine.started][1:] == [goes.run_id, waits.run_id]
        assert_at(starts(engine), [0, 2, 121])


async def test_case_136_debt_outlives_its_housekeeping_and_a_restart(engine_of):
    async with engine_of(throttled()) as engine:
        await send_at(engine, (0, user("u1", ["work", 1], ["ai", 60_000])))
        await advance_to(engine, 120)
        await engine.crash(runner=True)
        await send_at(engine, (200, user("u1")))
        await advance_to(engine, 3_540.999)
        assert starts(engine) == [0]
        await engine.advance("1m")
        assert_at(starts(engine), [0, 3_541])


async def test_case_137_a_run_in_flight_is_not_stopped(engine_of):
    async with engine_of(throttled()) as engine:
        call = [["work", 1], ["ai", 3_000]]
        spender = (await send_at(engine, (0, user("u1", *call, *call, *call))))[0].run_id
        await send_at(engine, (4, user("u1")))
        calls = [at for step in ("ai-2", "ai-4", "ai-6") for at in runs_of(engine, step, spender)]
        assert calls == [1, 2, 3]
        assert await status(engine, spender) == "completed"
        await engine.advance("1h")
        assert_at(starts(engine), [0, 481])


async def test_case_138_usage_larger_than_the_bucket_is_not_a_lock_out(engine_of):
    # nextStartAt is where a run says until when it waits: `waitingFor.until`.
    async with engine_of(throttled(10)) as engine:
        await send_at(engine, (0, user("u1", ["ai", 1_000_000])))
        waits, other = await send_at(engine, (1, user("u1")), (1, user("u2")))
        await engine.settle()
        assert await statuses(engine, waits.run_id, other.run_id) == ["queued", "completed"]
        due = (1_000_000 - 10) / 10 * 60
        shown = await engine.run(waits.run_id)
        assert_at([seconds_of(engine, shown.waiting_for.until)], [due])
        await engine.advance("365d")
        assert_at(starts(engine), [0, 1, due])


async def test_what_a_budget_holds_is_seen_while_its_runs_sleep(engine_of):
    # Of every scope is told who waits, why and since when, also where nobody would go on now.
    flow = scripted(budget=BudgetConfig(max_tokens=100, window_ms="60s"))
    async with engine_of(flow) as engine:
        [run] = await engine.send("w", {"do": [["ai", 250], ["sleep", 15], ["work", 1]]})
        await engine.advance("10s")
        [scope] = (await engine.flow_detail("w")).scopes
        assert (scope.control, scope.waiting) == ("budget", None)
        assert (scope.used_tokens, scope.max_tokens, scope.per_ms) == (250, 100, 60_000)
        assert scope.held_at == "2026-01-01T00:00:10.000Z"
        assert scope.why == "over its budget: 250 of 100 tokens, until its window has rolled"
        await engine.advance("10s")
        [scope] = (await engine.flow_detail("w", control="budget")).scopes
        [waits] = scope.line
        assert (scope.waiting, waits.id, waits.status) == (1, run.run_id, "paused")
        assert (await engine.run(run.run_id)).status == "paused"
        await engine.advance("1m")
        assert (await engine.flow_detail("w", control="budget")).scopes == []
