"""What a handler sees of its steps, its events and its run."""

import asyncio
import contextvars
import dataclasses
import json
import logging
from datetime import UTC, datetime, timedelta

import pytest
from scripted_engine import ScriptedEngine

from duraton import App, RetryConfig, StepContext, define_workflow
from duraton.context import current_step
from duraton.errors import ExecutionEnded
from duraton_schemas.wire.frames import Ack, Cancel, FrameError, FrameEvent, Step, Wake, WakeItem


def engine_of(handler, *others, **options):
    return ScriptedEngine(App("shop", [define_workflow("work", handler, **options), *others]))


def frames_of(engine, kind=Step):
    return [frame for frame in engine.sent if isinstance(frame, kind)]


@dataclasses.dataclass
class Row:
    a: int
    b: object = None


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        ({"a": None}, {"a": None}),
        ((1, (2,)), [1, [2]]),
        (Row(1, {2}), {"a": 1, "b": [2]}),
        (None, None),
    ],
)
async def test_a_handler_gets_the_stored_form_at_first_too(value, stored):
    seen = []

    async def handle(ctx):
        got = await ctx.step.run("a", lambda: value)
        seen.append(got)
        await ctx.step.sleep("nap", 1)
        return got

    engine = engine_of(handle)
    run = engine.start("work")
    await engine.settle()
    engine.wake(run, "nap")
    await engine.settle()
    assert seen == [stored, stored] and run.output == stored


async def test_a_handler_may_give_back_the_event_it_got():
    async def handle(ctx):
        return await ctx.step.run("keep", lambda: ctx.event)

    engine = engine_of(handle)
    run = engine.start("work", {"orderId": 7})
    await engine.settle()
    kept = {"id": "e1", "name": "work", "data": {"orderId": 7}, "ts": 1000}
    assert run.output == {**kept, "dedupe_id": None, "subject": None}


class Cyclic:
    def __init__(self):
        self.me = self


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: float("inf"), "value-not-json"),
        (lambda: b"x", "value-not-json"),
        (lambda: 2**53 + 1, "value-not-json"),
        (Cyclic, "value-not-json"),
        (lambda: "\ud800", "value-not-json"),
        (lambda: "x" * (4 << 20), "value-too-large"),
    ],
    ids=["inf", "bytes", "large", "cyclic", "surrogate", "long"],
)
async def test_a_value_that_cannot_be_stored_ends_the_run_after_one_execution(make, code):
    async def handle(ctx):
        await ctx.step.run("a", make, retry=RetryConfig(5))

    engine = engine_of(handle)
    run = engine.start("work")
    await engine.settle()
    assert (run.status, run.error.code, run.error.final) == ("failed", code, True)
    assert engine.steps_executed() == [("a", 1)]

    async def returns(ctx):
        return make()

    engine = engine_of(returns)
    run = engine.start("work")
    await engine.settle()
    assert (run.status, run.error.code) == ("failed", code)


async def test_one_id_in_a_loop_is_a_step_each_time():
    async def handle(ctx):
        got = []
        for i in range(3):
            got.append(await ctx.step.run("sync", lambda: i))  # noqa: B023 - as people write it
            await ctx.step.sleep("nap", 1)
        return got

    engine = engine_of(handle)
    run = engine.start("work")
    for n in range(3):
        await engine.settle()
        engine.wake(run, "nap", n=n)
    await engine.settle()
    assert run.output == [0, 1, 2] and len(engine.executed) == 3


async def test_parallel_uses_of_one_id_warn_once(caplog):
    async def handle(ctx):
        return await asyncio.gather(*(ctx.step.run("x", lambda i=i: i) for i in range(4)))

    engine = engine_of(handle)
    run = engine.start("work")
    await engine.settle()
    assert run.output == [0, 1, 2, 3]
    warnings = [r for r in caplog.records if "called again while it runs" in r.getMessage()]
    assert len(warnings) == 1


async def test_a_race_keeps_its_winner_over_replays():
    winners = []
    slow, quick = asyncio.Event(), asyncio.Event()

    async def handle(ctx):
        tasks = {
            asyncio.ensure_future(ctx.step.run("a", slow.wait)): "a",
            asyncio.ensure_future(ctx.step.run("b", quick.wait)): "b",
        }
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        winners.append([tasks[task] for task in done])
        for n in range(3):
            await ctx.step.sleep(f"nap{n}", 1)
        return winners[-1]

    engine = engine_of(handle)
    run = engine.start("work")
    quick.set()
    await asyncio.sleep(0.01)
    slow.set()
    for n in range(3):
        await engine.settle()
        engine.wake(run, f"nap{n}")
    await engine.settle()
    assert run.output == ["b"] and winners == [["b"]] * len(winners)


async def test_lines_of_the_log_are_not_written_again(caplog):
    caplog.set_level(logging.INFO, "duraton.workflow")

    async def handle(ctx):
        ctx.logger.info("began %s", ctx.run.workflow)
        await ctx.step.run("a", int)
        ctx.logger.info("slept next")
        await ctx.step.sleep("nap", 1)
        ctx.logger.info("awake")
        await ctx.step.run("b", int)
        ctx.logger.warning("done")

    engine = engine_of(handle)
    run = engine.start("work")
    await engine.settle()
    engine.wake(run, "nap")
    await engine.settle()
    assert [r.getMessage() for r in caplog.records] == ["began work", "slept next", "awake", "done"]
    assert caplog.records[0].run == run.id


var = contextvars.ContextVar("var", default="unset")


async def test_step_code_sees_its_callers_variables_and_itself():
    seen = []

    def in_thread():
        seen.append((var.get(), current_step()))

    async def on_loop():
        seen.append((var.get(), current_step()))
        var.set("inside")
        raise ValueError

    async def handle(ctx):
        var.set("outside")
        await ctx.step.run("t", in_thread)
        await ctx.step.run("l", on_loop, retry=RetryConfig(2))

    engine = engine_of(handle)
    run = engine.start("work")
    await engine.settle()
    engine.due(run, "l")
    await engine.settle()
    assert [value for value, _ in seen] == ["outside"] * 3
    infos = [info for _, info in seen]
    assert [(i.step, i.attempt) for i in infos] == [("t", 1), ("l", 1), ("l", 2)]
    assert infos[1].idempotency_key == infos[2].idempotency_key != infos[0].idempotency_key
    with pytest.raises(LookupError):
        current_step()


async def test_what_the_engine_brings_is_asked_for():
    child = define_workflow("child", _nothing)
    App("depot", [far := define_workflow("far", _nothing)])

    async def handle(ctx: StepContext):
        found = await ctx.step.wait_for_event("w", "paid", match={"order.id": 7.0}, timeout="1h")
        assert found is not None
        none = await ctx.step.wait_for_event("w2", "paid")
        sent = await ctx.step.send_event("s", "told", {"n": 1})
        outs = [
            await ctx.step.invoke("i1", child, {"x": 1}),
            await ctx.step.invoke("i2", "child"),
            await ctx.step.invoke("i3", "depot/far", retry=RetryConfig(2)),
            await ctx.step.invoke("i4", far),
        ]
        await ctx.step.sleep_until("u", datetime(2026, 1, 1))  # noqa: DTZ001 - read as UTC
        await ctx.step.sleep_until("u2", "2026-01-01T01:00:00+01:00")
        await ctx.step.sleep("z", timedelta(seconds=2))
        return [found.data, found.name, none, sent, outs]

    engine = engine_of(handle, child)
    run = engine.start("work")
    event = {"id": "e9", "name": "paid", "data": {"order": {"id": 7}}, "ts": 5, "subject": None}
    for step, output in [
        ("w", event), ("w2", None), ("i1", 1), ("i2", 2), ("i3", 3), ("i4", 4),
        ("u", None), ("u2", None), ("z", None),
    ]:  # fmt: skip
        await engine.settle()
        engine.wake(run, step, output)
    await engine.settle()
    assert run.output == [{"order": {"id": 7}}, "paid", None, "sent", [1, 2, 3, 4]]
    asked = {frame.step: frame for frame in frames_of(engine)}
    wait = asked["w"]
    assert (wait.event, wait.path, wait.value, wait.due_ms) == ("paid", "order.id", "7", 3_600_000)
    assert (asked["w2"].path, asked["w2"].due_ms) == ("", None)
    assert (asked["s"].event, json.loads(asked["s"].data)) == ("told", {"n": 1})
    assert [(asked[i].app, asked[i].workflow) for i in ("i1", "i2", "i3", "i4")] == [
        ("", "child"), ("", "child"), ("depot", "far"), ("depot", "far"),
    ]  # fmt: skip
    assert json.loads(asked["i3"].retry)["maxAttempts"] == 2
    assert asked["u"].due_at == asked["u2"].due_at == 1_767_225_600_000
    assert asked["z"].due_ms == 2_000


async def _nothing(ctx):
    return None


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s.run("", int),
        lambda s: s.run("x" * 501, int),
        lambda s: s.run("a", 5),
        lambda s: s.run("a", int, retry=RetryConfig(0)),
        lambda s: s.run("a", int, retry={"attempts": 3}),
        lambda s: s.sleep("a", "soon"),
        lambda s: s.sleep("a", -1),
        lambda s: s.sleep_until("a", "soon"),
        lambda s: s.wait_for_event("a", "e", match={"a": 1, "b": 2}),
        lambda s: s.wait_for_event("a", "e", match={"a..b": 1}),
        lambda s: s.wait_for_event("a", "e", match={"a": [1]}),
        lambda s: s.wait_for_event("a", ""),
        lambda s: s.invoke("a", "b", [1]),
        lambda s: s.send_event("a", "b", 5),
        lambda s: s.send_event("a", "b.*"),
        lambda s: s.ai.infer("a", model="m", messages=[], timeout="soon"),
        lambda s: s.ai.wrap("a", int, usage={"prompt_tokens": 1}),
        lambda s: s.ai.wrap("a", int, parse="json"),
    ],
)
async def test_a_call_that_cannot_work_fails_the_run_for_good(use):
    async def handle(ctx):
        await use(ctx.step)

    engine = engine_of(handle)
    run = engine.start("work")
    await engine.settle()
    assert run.status == "failed" and run.error.final and run.error.code
    assert not engine.executed


async def test_whole_numbers_are_ids_too():
    async def handle(ctx):
        return await ctx.step.run(7, lambda: "ok")

    engine = engine_of(handle)
    run = engine.start("work")
    await engine.settle()
    assert run.output == "ok" and ("7", 0) in run.steps


async def test_a_policy_given_in_part_warns(caplog):
    async def handle(ctx):
        await ctx.step.run("partial", int, retry=RetryConfig(backoff="linear"))
        await ctx.step.run("whole", int, retry=RetryConfig(3, "linear"))

    engine = engine_of(handle)
    engine.start("work")
    await engine.settle()
    assert sum("max_attempts" in r.getMessage() for r in caplog.records) == 1


async def test_on_failure_has_the_error_and_stands_under_the_failed_run():
    seen = []

    async def handle(ctx):
        raise AssertionError("not this one")

    async def clean(ctx):
        seen.append((ctx.error.message, ctx.run.id, ctx.event.data, len(ctx.events)))
        await ctx.step.run("void", int)

    engine = engine_of(handle, on_failure=clean)
    run = engine.start("work", {"p": 1})
    engine.replies.clear()
    run.events.append(FrameEvent(id="e2", name="work", data="{}", ts=2))
    engine.invoke(
        run, kind="onFailure", failed_run="run_of_old", error=FrameError(message="declined")
    )
    await engine.settle()
    assert seen[0] == ("declined", "run_of_old", {"p": 1}, 2)
    assert engine.executed == [("run_of_old", "onFailure/void", 1)]
    assert run.status == "completed"


async def test_cancel_stops_code_and_lets_finally_run():
    notes = []

    async def slow():
        try:
            await asyncio.Event().wait()
        finally:
            notes.append("step stopped")

    async def handle(ctx):
        async def branch():
            await ctx.step.sleep("nap", 1)

        left = asyncio.ensure_future(branch())
        try:
            await ctx.step.run("slow", slow)
        finally:
            try:
                await ctx.step.run("clean", int)
            except ExecutionEnded:
                notes.append("too late")
            notes.append(left)

    engine = engine_of(handle)
    run = engine.start("work")
    for _ in range(50):
        await asyncio.sleep(0)
    sent = len(engine.sent)
    engine._to_runner(Cancel(run=run.id, token=run.token, epoch=1))
    await engine.settle()
    assert notes[0:2] == ["step stopped", "too late"] or notes[0:2] == ["too late", notes[1]]
    assert "step stopped" in notes and "too late" in notes
    assert all(n.cancelled() for n in notes if not isinstance(n, str))
    assert len(engine.sent) == sent and not engine.runner.executions


async def test_a_lost_result_is_asked_for_by_suspending():
    gate = asyncio.Event()

    async def handle(ctx):
        async def napper():
            await ctx.step.sleep("nap", 1)

        await asyncio.gather(ctx.step.run("a", gate.wait), napper())
        return "done"

    engine = engine_of(handle)
    run = engine.start("work")
    for _ in range(50):
        await asyncio.sleep(0)
    # The engine committed the sleep's end, and its wake was lost with the connection.
    run.results += 1
    run.steps[("nap", 0)].number, run.steps[("nap", 0)].output = 1, "null"
    gate.set()
    await engine.settle()
    assert (run.status, run.output, run.tokens) == ("completed", "done", 2)
    assert engine.steps_executed() == [("a", 1)]


async def test_frames_of_another_token_and_repeats_change_nothing():
    async def handle(ctx):
        await ctx.step.sleep("nap", 1)
        return await ctx.step.run("a", int)

    engine = engine_of(handle)
    run = engine.start("work")
    for _ in range(5):
        await asyncio.sleep(0)
    for token in ("0.1.99", run.token):
        item = WakeItem(step="nap", number=1, output="null")
        engine._to_runner(Wake(run=run.id, token=token, items=[item, item], epoch=1))
        engine._to_runner(Ack(run=run.id, token=token, step="other", number=9, epoch=1))
        engine._to_runner(Ack(run="run_unknown", token=token, epoch=1))
    run.results, run.steps[("nap", 0)].number = 1, 1
    await engine.settle()
    assert run.status == "completed" and engine.steps_executed() == [("a", 1)]


async def test_code_that_returns_early_is_told_apart_from_what_is_recorded():
    short = False

    async def handle(ctx):
        if not short:
            await ctx.step.run("a", int)
            await ctx.step.sleep("nap", 1)

    engine = engine_of(handle)
    run = engine.start("work")
    await engine.settle()
    short = True
    engine.wake(run, "nap")
    await engine.settle()
    assert run.error.code == "nondeterministic" and "'a'" in run.error.message


async def test_another_kind_of_step_is_told_apart():
    kind = "run"

    async def handle(ctx):
        await (ctx.step.run("a", int) if kind == "run" else ctx.step.sleep("a", 1))
        await ctx.step.sleep("nap", 1)

    engine = engine_of(handle)
    run = engine.start("work")
    await engine.settle()
    kind = "sleep"
    engine.wake(run, "nap")
    await engine.settle()
    assert run.error.code == "nondeterministic" and "'run'" in run.error.message


async def test_two_thousand_steps_replay_quickly_and_in_order():
    async def handle(ctx):
        total = 0
        for i in range(2_000):
            total += await ctx.step.run("s", same, i)
        await ctx.step.sleep("nap", 1)
        return total

    async def same(i):
        return i

    engine = engine_of(handle)
    run = engine.start("work")
    await engine.settle()
    assert run.status == "waiting" and len(engine.executed) == 2_000
    engine.wake(run, "nap")
    await engine.settle()
    assert run.output == sum(range(2_000)) and len(engine.executed) == 2_000
