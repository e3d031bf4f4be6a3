"""The flow control examples of the documents that Duraton was built from, as they stand.

Each does with an engine what its section says, and each curl line gives the answer beside it.
Sentences of the documents stand as comments above what proves them.
"""

import ast
import json
import re
import shlex
import string
from datetime import datetime

import pytest
from seed_texts import (
    BATCH,
    CEILING_ANSWER,
    CEILING_CURL,
    CONCURRENCY,
    FAILED_CURL,
    FLOW_STATE_ANSWER,
    FLOW_STATE_CURL,
    LINES,
    TOGETHER_GROUP,
    TOGETHER_JOIN,
)
from tests.over_http import URL, Http

from duraton import App, OptionsError, RetryConfig, define_workflow
from duraton.testing import Engine
from duraton.workflow import WorkflowDefinition
from duraton_api.http.keys import ApiKey, digest_of

PRICES = {"version": "1", "models": {"m": {"input": 1.0, "output": 1.0}}}
"""Dollars a million tokens."""


# How the documents' texts are read ---------------------------------------------------


def wire(line):
    """The wire form that a line such as `throttle: { limit: 100 }` states."""
    text = line.partition("//")[0].strip().removesuffix(",")
    return ast.literal_eval("{" + re.sub(r"(\w+):", r'"\1":', text) + "}")


CONTROLS = {name: {name: value} for each in LINES.split("\n") for name, value in wire(each).items()}


def program(text, **names):
    """The workflow that an example defines, with what it calls."""
    space = dict(names)
    exec(compile(text, "example.py", "exec"), space)
    (workflow,) = (each for each in space.values() if isinstance(each, WorkflowDefinition))
    return workflow


async def curl(http, line, **names):
    """What a curl line answers; `| jq .field` is taken of it."""
    command, _, field = line.partition(" | jq .")
    words = shlex.split(string.Template(command).substitute(names, DURATON_URL=URL))
    assert words[0] == "curl"
    headers = dict(words[n + 1].split(": ", 1) for n, word in enumerate(words) if word == "-H")
    response = await http.get(words[1].removeprefix(URL), headers=headers)
    assert response.status_code == 200, response.text
    return response.json()[field] if field else response.json()


def with_moments(value):
    """JSON with its times as moments, however many digits they are written with."""
    if isinstance(value, dict):
        return {key: with_moments(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_moments(each) for each in value]
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        return datetime.fromisoformat(value)
    return value


# Engines and runs ----------------------------------------------------------------------


@pytest.fixture(params=[1, 12], ids=["P1", "P12"])
def engines(request):
    """Makes engines, of one partition and of twelve."""

    class Maker:
        async def work(self, seconds):
            await self.engine.clock.sleep(seconds)
            return "done"

        def working(self, name, seconds, **options):
            """A workflow of one step that takes so long; it gives back its event's data."""

            async def handle(ctx):
                await ctx.step.run("work", self.work, seconds)
                return ctx.event.data

            return define_workflow(name, handle, **options)

        def __call__(self, *apps, **more):
            self.engine = Engine(*apps, partitions=request.param, **more)
            return self.engine

    return Maker()


def starts(engine, runs=None):
    """When runs started, in seconds; of some runs or of all."""
    return [at for _, run, at in engine.started if runs is None or run in runs]


async def send_each(engine, name, datas):
    """Send events in one POST; the answers of the one workflow, in order."""
    return [answer for (answer,) in await engine.send_many([(name, data) for data in datas])]


def ids(answers):
    return [answer.run_id for answer in answers]


# Concurrency and keys --------------------------------------------------------------------


async def test_the_python_example_of_concurrency(engines):
    async def sync_account(account):
        await engines.work(10)
        return f"synced {account}"

    app = App("docs", [program(CONCURRENCY, sync_account=sync_account)])
    async with engines(app) as engine:
        a = await send_each(engine, "sync.account", [{"accountId": "a"}] * 7)
        b = await send_each(engine, "sync.account", [{"accountId": "b"}] * 5)
        await engine.settle()
        # "`key: "accountId"` gives each account its own independent limit"
        assert len(await engine.runs(status="running")) == 10
        # "Over-limit runs are not dropped - they wait and retry as slots free, preserving order."
        assert [(await engine.run(run)).status for run in ids(a)[5:]] == ["queued"] * 2
        await engine.advance("10s")
        assert starts(engine, ids(a)) == [0] * 5 + [10] * 2
        assert [run for _, run, _ in engine.started if run in ids(a)] == ids(a)
        await engine.advance("10s")
        outputs = [(await engine.run(run)).output for run in ids(a + b)]
        assert outputs == ["synced a"] * 7 + ["synced b"] * 5


async def test_a_run_that_sleeps_or_awaits_an_event_releases_its_slot(engines):
    async def handle(ctx):
        await ctx.step.run("before", engines.work, 10)
        if ctx.event.data.get("waits"):
            await ctx.step.wait_for_event("go", "go", timeout="1h")
        await ctx.step.sleep("pause", "60s")
        await ctx.step.run("after", engines.work, 10)

    workflow = define_workflow("w", handle, extra=CONTROLS["concurrency"])
    async with engines(workflow) as engine:
        data = {"accountId": "a"}
        sent = await send_each(engine, "w", [data] * 4 + [data | {"waits": True}] + [data] * 5)
        await engine.advance("10s")
        # "a run that is sleeping or awaiting an event releases its slot and does not consume one"
        assert starts(engine, ids(sent)) == [0] * 5 + [10] * 5
        await engine.advance("10s")
        assert len(await engine.runs(status="waiting")) == 10


async def test_keys_are_field_paths(engines):
    extra = {"concurrency": {"limit": 1, "key": "user.id"}}
    async with engines(engines.working("w", 10, extra=extra)) as engine:
        # "`key: "user.id"` reads a nested field"
        await send_each(engine, "w", [{"user": {"id": 1}}, {"user": {"id": 1}}])
        await send_each(engine, "w", [{"user": {"id": 2}}])
        # "An omitted key - or a missing / non-scalar field - scopes the control to the whole
        # workflow."
        await send_each(engine, "w", [{}, {"user": {"id": [1]}}])
        await engine.settle()
        assert len(starts(engine)) == 3
        await engine.advance("10s")
        assert len(starts(engine)) == 5


async def test_the_project_wide_ceiling(engines):
    apps = [engines.working("limited", 10, extra=CONTROLS["concurrency"])]
    apps += [engines.working("free", 10)]
    async with engines(*apps) as engine:
        http = Http(engine)
        await http.put("/project", json={"ceiling": 7})
        # "A run must clear both its per-workflow limit and the project ceiling to start;
        # whichever is tighter applies"
        limited = await send_each(engine, "limited", [{"accountId": "a"}] * 6)
        await engine.settle()
        assert len(starts(engine, ids(limited))) == 5
        free = await send_each(engine, "free", [{}] * 4)
        await engine.settle()
        assert len(starts(engine, ids(free))) == 2
        # "(0 = unlimited)"
        await http.put("/project", json={"ceiling": 0})
        await engine.settle()
        assert len(starts(engine, ids(free))) == 4
        await engine.advance("20s")
        assert len(await engine.runs(status="completed")) == 10


async def test_the_curl_line_of_the_ceiling(engines):
    async with engines(engines.working("busy", 10)) as engine:
        http = Http(engine)
        await http.put("/project", json={"ceiling": 50})
        await send_each(engine, "busy", [{}] * 12)
        await engine.settle()
        assert await curl(http, CEILING_CURL) == json.loads(CEILING_ANSWER)


# When runs start -------------------------------------------------------------------------


async def test_throttle(engines):
    async with engines(engines.working("w", 0, extra=CONTROLS["throttle"])) as engine:
        one = await send_each(engine, "w", [{"customer": 1}] * 5)
        other = await send_each(engine, "w", [{"customer": 2}])
        # "smoothing bursts by spreading overflow into the future - one start every
        # perMs / limit. No run is lost; excess runs begin later."
        await engine.advance("1m")
        assert starts(engine, ids(one)) == [0, 0.6, 1.2, 1.8, 2.4]
        assert starts(engine, ids(other)) == [0]
        assert len(await engine.runs(status="completed")) == 6


async def test_rate_limit(engines):
    async with engines(engines.working("w", 0, extra=CONTROLS["rateLimit"])) as engine:
        http = Http(engine)
        event = {"name": "w", "data": {"ip": "10.0.0.7"}}
        first = (await http.post("/events", json=[event] * 1_000)).json()
        assert all(each["answers"][0]["runId"] for each in first)
        # "Up to `limit` runs start per `perMs`; the rest are shed and the event response
        # reports `dropped: true`."
        (shed,) = (await http.post("/events", json=event)).json()["answers"]
        assert (shed["dropped"], "runId" in shed) == (True, False)
        other = await engine.send("w", {"ip": "10.0.0.8"})
        await engine.advance("1m")
        again = await engine.send("w", {"ip": "10.0.0.7"})
        assert not other[0].dropped and not again[0].dropped
        await engine.settle()
        assert len(starts(engine)) == 1_002


async def test_priority(engines):
    apps = [engines.working("slow", 10)]
    apps += [engines.working("urgent", 10, extra=CONTROLS["priority"])]
    async with engines(*apps) as engine:
        await engine.set_ceiling(1)
        slow = await send_each(engine, "slow", [{}] * 3)
        await engine.advance("5s")
        urgent = await send_each(engine, "urgent", [{}])
        await engine.advance("1m")
        # "they dequeue ahead of other workflows competing for the same slots"
        order = [run for _, run, _ in engine.started]
        assert order == [slow[0].run_id, urgent[0].run_id, slow[1].run_id, slow[2].run_id]


# Many events, one run --------------------------------------------------------------------


async def test_debounce(engines):
    async with engines(engines.working("w", 0, extra=CONTROLS["debounce"])) as engine:
        for version in (1, 2, 3):
            (answer,) = await engine.send("w", {"documentId": "a", "version": version})
            assert answer.buffered
            await engine.advance("3s")
        await engine.send("w", {"documentId": "b", "version": 9})
        await engine.advance("1m")
        # "Each new event slides the deadline forward and replaces the payload, so only the
        # last event in a quiet-bounded burst runs."
        runs = [await engine.run(each.id) for each in await engine.runs()]
        assert sorted((run.output["documentId"], run.output["version"]) for run in runs) == [
            ("a", 3),
            ("b", 9),
        ]
        assert starts(engine) == [11, 14]


async def test_the_python_example_of_batch(engines):
    indexed = []
    app = App("docs", [program(BATCH, index=indexed.append)])
    async with engines(app) as engine:
        # "flushing when the buffer hits maxSize or timeoutMs elapses, whichever comes first"
        documents = [{"id": f"d{n}", "index": "main"} for n in range(102)]
        sent = await send_each(engine, "index.documents", documents[:99])
        assert all(answer.buffered for answer in sent)
        await engine.settle()
        assert indexed == []
        await engine.advance("4s")
        await send_each(engine, "index.documents", documents[99:])
        await engine.settle()
        assert indexed == documents[:100]
        await engine.advance("4999ms")
        assert len(indexed) == 100
        await engine.advance("1ms")
        assert indexed == documents
        # "The run receives the events as ctx.events; ctx.event is the first of them."
        second, first = await engine.runs()
        assert [step.id for step in (await engine.run(second.id)).steps] == ["d100", "d101"]
        assert len((await engine.run(first.id)).steps) == 100


async def test_the_line_of_batch_says_what_its_python_says(engines):
    assert program(BATCH, index=None).options.batch == CONTROLS["batch"]["batch"]

    async def handle(ctx):
        return [ctx.event.data, len(ctx.events)]

    async with engines(define_workflow("w", handle, extra=CONTROLS["batch"])) as engine:
        await send_each(engine, "w", [{"index": "a", "n": n} for n in range(3)])
        await engine.send("w", {"index": "b", "n": 9})
        await engine.advance("5s")
        runs = [await engine.run(each.id) for each in await engine.runs()]
        assert sorted((run.output for run in runs), key=str) == [
            [{"index": "a", "n": 0}, 3],
            [{"index": "b", "n": 9}, 1],
        ]


# One run at most -------------------------------------------------------------------------


async def test_singleton(engines):
    async def handle(ctx):
        await ctx.step.run("work", engines.work, 10)
        await ctx.step.sleep("pause", "1m")

    async with engines(define_workflow("w", handle, extra=CONTROLS["singleton"])) as engine:
        (first,) = await engine.send("w", {"accountId": "a"})
        (other,) = await engine.send("w", {"accountId": "b"})
        await engine.advance("30s")
        # "Allows at most one non-terminal run per key."
        assert (await engine.run(first.run_id)).status == "waiting"
        (skipped,) = await engine.send("w", {"accountId": "a"})
        assert (skipped.skipped, skipped.run_id) == (True, None)
        await engine.advance("1m")
        (after,) = await engine.send("w", {"accountId": "a"})
        assert after.run_id and other.run_id
        assert len(await engine.runs()) == 3


async def test_idempotency(engines):
    async def wait(ctx):
        event = await ctx.step.wait_for_event("order", "w", match={"orderId": 2}, timeout="1h")
        return event.data

    once = engines.working("w", 0, extra=CONTROLS["idempotency"])
    async with engines(once, define_workflow("waiter", wait)) as engine:
        http = Http(engine)

        async def post(order, **more):
            event = {"name": "w", "data": {"orderId": order, **more}}
            (answer,) = (await http.post("/events", json=event)).json()["answers"]
            return answer

        # "To verify a per-key path resolves, send two events with distinct payloads and
        # confirm two runs start."
        assert (await post(1))["runId"] != (await post(2))["runId"]
        (waiter,) = await engine.send("waiter")
        await engine.settle()
        # "dropped for this workflow (the response reports `deduped: true` with no runId)"
        second = await post(2, again=True)
        assert (second["deduped"], "runId" in second) == (True, False)
        await engine.settle()
        # "The event is still recorded and still wakes waitForEvent waiters"
        assert len(await engine.events("w")) == 3
        assert (await engine.run(waiter.run_id)).output["again"] is True
        # "at most one run per orderId per 24h"
        await engine.advance("86399999ms")
        assert "runId" not in await post(1)
        await engine.advance("1ms")
        assert (await post(1))["runId"]


@pytest.mark.parametrize("path", ["a..b", ".a", "a.", ""])
async def test_a_malformed_path_is_rejected_when_the_workflow_is_registered(engines, path):
    line = CONTROLS["idempotency"]["idempotency"] | {"key": path}
    with pytest.raises(OptionsError, match="key"):
        engines.working("w", 0, extra={"idempotency": line})
    async with engines(engines.working("v", 0)) as engine:
        body = {"name": "shop", "workflows": [{"name": "w", "idempotency": line}]}
        response = await Http(engine).put("/apps/shop", json=body)
        assert (response.status_code, response.json()["code"]) == (400, "options-refused")


async def test_a_dedupe_id_is_dropped_before_any_fan_out(engines):
    async with engines(engines.working("w", 0), engines.working("v", 0)) as engine:
        http = Http(engine)
        event = {"name": "w", "data": {}, "dedupeId": "d"}
        first = (await http.post("/events", json=event)).json()
        # "a repeat of that id within 24h is dropped before any fan-out", "regardless of which
        # workflows it matches"
        repeat = (await http.post("/events", json=event | {"name": "v"})).json()
        assert (repeat["answers"], repeat["duplicateOf"]) == ([], first["eventId"])
        await engine.advance("24h")
        again = (await http.post("/events", json=event)).json()
        assert again["answers"][0]["runId"]


# AI spend --------------------------------------------------------------------------------


def asking(engines, calls, tokens, **options):
    """A workflow that asks a model so often; each call costs a dollar a million tokens."""

    async def ask():
        return {"model": "m", "usage": {"prompt_tokens": tokens, "completion_tokens": 0}}

    async def handle(ctx):
        for _ in range(calls):
            await ctx.step.ai.wrap("ask", ask)

    return define_workflow("w", handle, **options)


@pytest.mark.parametrize(
    ("tokens", "axis"), [(15_000, "maxTokens"), (10_000, "maxTokens"), (2_000, None)]
)
async def test_cap(engines, tokens, axis):
    async with engines(asking(engines, 5, tokens, extra=CONTROLS["cap"])) as engine:
        (answer,) = await engine.send("w")
        await engine.settle()
        run = await engine.run(answer.run_id)
        if axis is None:
            assert (run.status, len(run.steps)) == ("completed", 5)
            return
        # "the call that pushes spend to the limit completes, and the next one halts"
        made = [step for _, step, _, _ in engine.executions]
        assert len(made) == -(-40_000 // tokens)
        # "fails with a BudgetError", "A cap-hit run is an ordinary failed run"
        assert (run.status, run.error.name) == ("failed", "BudgetError")
        assert axis in run.error.message
        # "Everything before the halt stays committed"
        assert run.spend.tokens == tokens * len(made)
        assert [step.status for step in run.steps[: len(made)]] == ["completed"] * len(made)


async def test_cap_of_cost(engines):
    prices = {"version": "2", "models": {"m": {"input": 100.0, "output": 100.0}}}
    async with engines(asking(engines, 5, 1_000, extra=CONTROLS["cap"])) as engine:
        await engine.set_prices(prices)  # ten cents a call
        (answer,) = await engine.send("w")
        await engine.settle()
        run = await engine.run(answer.run_id)
        assert (run.status, run.error.name, run.spend.cost) == ("failed", "BudgetError", 0.3)
        assert "maxCost" in run.error.message and len(engine.executions) == 3


async def test_budget(engines):
    async def ask():
        return {"model": "m", "usage": {"prompt_tokens": 4_000, "completion_tokens": 0}}

    async def handle(ctx):
        await ctx.step.ai.wrap("ask", ask)
        await ctx.step.sleep("pause", "10m")
        await ctx.step.ai.wrap("ask", ask)
        await ctx.step.sleep("pause", "10m")
        await ctx.step.run("end", lambda: "done")

    async with engines(define_workflow("w", handle, extra=CONTROLS["budget"])) as engine:
        (answer,) = await engine.send("w")
        await engine.advance("30m")
        # "When the workflow's spend crosses a set axis, Duraton pauses the workflow's in-flight
        # runs at their checkpoint", "its `pausedBy` records `reason: "budget"`"
        run = await engine.run(answer.run_id)
        assert (run.status, run.spend.tokens) == ("paused", 8_000)
        assert run.paused_by.reason == "budget"
        # "It resumes automatically when the window rolls the old spend off"
        await engine.advance("29m")
        assert (await engine.run(answer.run_id)).status == "paused"
        await engine.advance("2m")
        assert (await engine.run(answer.run_id)).status == "completed"


async def test_token_throttle(engines):
    async def ask(tokens):
        return {"model": "m", "usage": {"prompt_tokens": tokens, "completion_tokens": 0}}

    async def handle(ctx):
        await ctx.step.ai.wrap("ask", ask, ctx.event.data["tokens"])

    async with engines(define_workflow("w", handle, extra=CONTROLS["tokenThrottle"])) as engine:
        (first,) = await engine.send("w", {"userId": 1, "tokens": 1_500})
        await engine.settle()
        # "when the bucket is drained it delays new run starts for that key into the future"
        (second,) = await engine.send("w", {"userId": 1, "tokens": 1})
        # "a fresh key starts immediately"
        (fresh,) = await engine.send("w", {"userId": 2, "tokens": 1})
        await engine.settle()
        assert starts(engine, ids([first, second, fresh])) == [0, 0]
        assert (await engine.run(second.run_id)).status == "queued"
        await engine.advance("30s")
        assert starts(engine, ids([second])) == []
        await engine.advance("1ms")  # 500 tokens below 0, at 1,000 a minute: then it is above
        assert starts(engine, ids([second])) == [30.001]


# Together --------------------------------------------------------------------------------


async def test_together_join(engines):
    workflow = engines.working("ship", 10, key="order", extra=wire(TOGETHER_JOIN))
    async with engines(workflow) as engine:
        # "a webhook that is sent three times, or a button that is pressed twice, makes one run"
        sent = await send_each(engine, "ship", [{"order": 7}] * 3 + [{"order": 8}])
        assert [answer.joined for answer in sent] == [False, True, True, False]
        assert len(set(ids(sent))) == 2 and len(set(ids(sent)[:3])) == 1
        # "to any other caller the start is refused with code.T7103"
        (foreign,) = await engine.send("ship", {"order": 7}, key="other")
        assert (foreign.refused, foreign.run_id, foreign.blocked_by) == ("T7103", None, None)


async def test_together_group(engines):
    extra = wire(f"together: {TOGETHER_GROUP}")
    apps = [engines.working(name, 10, key="team", extra=extra) for name in ("pack", "label")]
    async with engines(*apps) as engine:
        # "lets five runs of either work at once for one team, and a run of another team goes
        # its own way"
        red = await engine.send_many([("pack", {"team": "red"}), ("label", {"team": "red"})] * 4)
        blue = await engine.send("pack", {"team": "blue"})
        await engine.advance("5s")
        red_ids = [answer.run_id for (answer,) in red]
        assert len(starts(engine, red_ids)) == 5
        assert len(starts(engine, ids(blue))) == 1
        await engine.advance("15s")
        assert len(starts(engine, red_ids)) == 8


# What curl shows -------------------------------------------------------------------------


@pytest.mark.parametrize("control", ["debounce", "batch"])
async def test_the_curl_line_of_flow_state(engines, control):
    # One workflow cannot have both (P13), so each row of the answer is shown by itself.
    answer = with_moments(json.loads(FLOW_STATE_ANSWER))
    answer[{"debounce": "batch", "batch": "debounce"}[control]] = []
    docs = App("docs", [engines.working("index.documents", 0, extra=CONTROLS[control])])
    async with engines(docs, engines.working("busy", 60), start="2026-07-01T10:00:00Z") as engine:
        http = Http(engine)
        await http.put("/project", json={"ceiling": 50})
        await send_each(engine, "busy", [{}] * 12)
        if control == "debounce":
            await engine.send("index.documents", {"documentId": 1})
            await engine.advance("1s")
            await send_each(engine, "index.documents", [{"documentId": 2}, {"documentId": 3}])
        else:
            await engine.advance("1s")
            await send_each(engine, "index.documents", [{"index": "a"}] * 40)
            await engine.advance("1s")
            await send_each(engine, "index.documents", [{"index": "b"}] * 2)
        assert with_moments(await curl(http, FLOW_STATE_CURL)) == answer
        assert with_moments(await engine.flow_state("index.documents")) == answer


async def test_the_curl_line_of_failed_runs(engines):
    async def handle(ctx):
        await ctx.step.run("work", fail, ctx.event.data["fails"])

    async def fail(fails):
        if fails:
            raise ValueError("no such account")

    async with engines(define_workflow("w", handle, retry=RetryConfig(2))) as engine:
        (failed,) = await engine.send("w", {"fails": True})
        await engine.advance("1s")
        retrying, completed = await send_each(engine, "w", [{"fails": True}, {"fails": False}])
        await engine.settle()
        assert (await engine.run(retrying.run_id)).status == "waiting"
        assert (await engine.run(completed.run_id)).status == "completed"
        # "exactly the set of runs that permanently failed, each carrying its terminal error"
        http = Http(engine, keys=(ApiKey("ops", digest_of("s3cret"), frozenset({"read"})),))
        (shown,) = (await curl(http, FAILED_CURL, DURATON_API_KEY="s3cret"))["runs"]
        assert (shown["id"], shown["error"]["message"]) == (failed.run_id, "no such account")
