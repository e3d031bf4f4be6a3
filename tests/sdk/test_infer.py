"""`ctx.step.ai.infer` against a real HTTP server that speaks OpenAI's protocol."""

import asyncio
import json
import re
import socket
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from duraton import RetryConfig, define_workflow

USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
MESSAGES = [{"role": "user", "content": "Say hello"}]


def whole(text="hello", **more):
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c1", "object": "chat.completion", "model": "m-1-2026-01-01", "choices": [choice],
            "usage": USAGE} | more  # fmt: skip


class Provider:
    """An endpoint; `script` holds what it answers, the last entry for ever."""

    def __init__(self):
        self.asked = []
        self.script = [whole()]
        self.patience = asyncio.Event()

    async def complete(self, request):
        body = await request.json()
        self.asked.append((body, dict(request.headers)))
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if answer == "silence":
            await self.patience.wait()
        if isinstance(answer, list):
            return StreamingResponse(sse(answer), media_type="text/event-stream")
        return answer if isinstance(answer, Response) else JSONResponse(answer)


async def sse(chunks):
    for chunk in chunks:
        if isinstance(chunk, Exception):
            raise chunk
        yield f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n"


class Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self):
        yield


@asynccontextmanager
async def served(app):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, lifespan="off", ws="none", log_level="critical")
        server = Quiet(config)
        task = asyncio.create_task(server.serve([listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await task


@pytest.fixture
async def provider(monkeypatch):
    made = Provider()
    app = Starlette(routes=[Route("/v1/chat/completions", made.complete, methods=["POST"])])
    async with served(app) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1/")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        yield made
        made.patience.set()


def asking(retry=None, **options):
    async def handle(ctx):
        answer = await ctx.step.ai.infer("ask", model="m-1", messages=MESSAGES, **options)
        return answer["choices"][0]["message"]["content"]

    return define_workflow("w", handle, retry=retry)


PRICES = {"version": "1", "models": {"m-1": {"input": 1, "output": 2}}}


async def outcome(duraton, workflow, *, advance="1m", **more):
    async with duraton(workflow, **more) as engine:
        await engine.set_prices(PRICES)
        [answer] = await engine.send("w")
        await engine.settle()
        await engine.advance(advance)
        return await engine.run(answer.run_id), [n for _, _, n, _ in engine.executions]


@pytest.mark.parametrize("transport", ["connect", "serve"])
async def test_an_answer_and_what_it_used(duraton, provider, transport):
    workflow = asking(temperature=0.5)
    run, attempts = await outcome(duraton, workflow, transport=transport)
    assert (run.status, run.output, attempts) == ("completed", "hello", [1])
    [step] = run.steps
    assert step.output == whole() and step.kind == "ai"
    assert (step.spend.tokens, step.spend.cost) == (25, 30e-6)
    assert step.spend.model == "m-1-2026-01-01"
    [(body, headers)] = provider.asked
    assert body == {"model": "m-1", "messages": MESSAGES, "temperature": 0.5}
    assert headers["authorization"] == "Bearer sk-secret"


def chunk(delta=None, finish=None, **more):
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "choices": choices,
            "usage": None} | more  # fmt: skip


STREAM = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "hel"}),
    chunk({"content": "lo"}),
    chunk({}, "stop"),
    chunk(usage=USAGE),
    "[DONE]",
]


@pytest.mark.parametrize("transport", ["connect", "serve"])
async def test_a_streamed_answer_is_put_together_and_metered(duraton, provider, transport):
    provider.script = [STREAM]
    told = []
    workflow = asking(stream=True, on_text=told.append, stream_options={"extra": 1})
    run, _ = await outcome(duraton, workflow, transport=transport)
    assert (run.output, told) == ("hello", ["hel", "lo"])
    assert run.steps[0].output == whole(model="m-1")
    assert (run.spend.tokens, run.spend.cost) == (25, 30e-6)
    [(body, _)] = provider.asked
    assert body["stream"] and body["stream_options"] == {"extra": 1, "include_usage": True}


async def test_calls_of_tools_and_several_choices_are_put_together(duraton, provider):
    part = {"index": 0, "id": "t1", "type": "function", "function": {"name": "f", "arguments": "{"}}
    more = {"index": 0, "function": {"arguments": '"a":1}'}}
    second = {"index": 1, "delta": {"content": "b"}, "finish_reason": "length"}
    provider.script = [
        [
            chunk({"tool_calls": [part]}),
            chunk({"tool_calls": [more]}, "tool_calls"),
            chunk() | {"choices": [second]},
            "[DONE]",
        ]
    ]
    run, _ = await outcome(duraton, asking(stream=True))
    first, other = run.steps[0].output.choices
    function = {"name": "f", "arguments": '{"a":1}'}
    assert first.message["tool_calls"] == [{"id": "t1", "type": "function", "function": function}]
    assert first["finish_reason"] == "tool_calls"
    assert (other.message.content, other["finish_reason"]) == ("b", "length")
    assert run.spend.usage_unknown  # it sent no usage though it was asked to


async def test_429_is_tried_again_when_the_endpoint_says(duraton, provider):
    refused = {"error": {"message": "slow down"}}
    provider.script = [JSONResponse(refused, 429, {"retry-after": "7"}), whole()]
    async with duraton(asking(RetryConfig(2))) as engine:
        [answer] = await engine.send("w")
        await engine.settle()
        waiting = await engine.run(answer.run_id)
        error = waiting.steps[0].error
        assert (error.name, waiting.status) == ("RetryAfterError", "waiting")
        assert error.message.endswith("answered 429: slow down")
        await engine.advance("6s")
        assert len(engine.executions) == 1
        await engine.advance("1s")
        run = await engine.run(answer.run_id)
        assert (run.status, run.spend.tokens) == ("completed", 25)


@pytest.mark.parametrize(
    ("answer", "name", "code", "attempts"),
    [
        (JSONResponse({"error": {"message": "bad"}}, 400), "InferenceRefusedError", "inference-refused", [1]),
        (JSONResponse({"error": "who?"}, 401), "InferenceRefusedError", "inference-refused", [1]),
        (Response(status_code=307, headers={"location": "/"}), "InferenceRefusedError", "inference-refused", [1]),
        (PlainTextResponse("later", 429), "InferenceError", "inference-failed", [1, 2]),
        (PlainTextResponse("oops", 500), "InferenceError", "inference-failed", [1, 2]),
        (PlainTextResponse("gone", 503), "InferenceError", "inference-failed", [1, 2]),
        (PlainTextResponse("again", 408), "InferenceError", "inference-failed", [1, 2]),
        (PlainTextResponse("no JSON"), "InferenceError", "inference-failed", [1, 2]),
        ({"choices": 5}, "InferenceError", "inference-failed", [1, 2]),
    ],
    ids=["400", "401", "307", "429", "500", "503", "408", "text", "form"],
)  # fmt: skip
async def test_refusals_are_final_and_failures_are_tried_again(
    duraton, provider, answer, name, code, attempts
):
    provider.script = [answer]
    run, made = await outcome(duraton, asking(RetryConfig(2)))
    assert (run.status, run.error.name, run.error.code, made) == ("failed", name, code, attempts)
    assert "sk-secret" not in json.dumps(dict(run))


@pytest.mark.parametrize(
    "stream",
    [
        [*STREAM[:3]],
        [*STREAM[:3], {"error": {"message": "overloaded"}}],
        [*STREAM[:3], "{"],
        [*STREAM[:3], ConnectionError("it broke")],
        ["5"],
        [chunk() | {"choices": [{"index": 10**9, "delta": {}}]}],
        [chunk() | {"choices": [{"index": "x"}]}],
        [],
        ["[DONE]"],
    ],
)
async def test_a_stream_that_is_not_whole_fails_and_its_usage_is_unknown(duraton, provider, stream):
    provider.script = [stream, STREAM]
    run, made = await outcome(duraton, asking(RetryConfig(2), stream=True))
    assert (run.status, made) == ("completed", [1, 2])
    assert run.steps[0].errors[0].error.name == "InferenceError"
    assert (run.spend.tokens, run.spend.usage_unknown, run.spend.cost) == (25, True, None)


async def test_a_failed_stream_counts_what_it_said(duraton, provider):
    provider.script = [STREAM]

    def fail(text):
        raise ValueError(text)

    run, _ = await outcome(duraton, asking(stream=True, on_text=fail))
    assert (run.status, run.error.name, run.error.message) == ("failed", "ValueError", "hel")
    assert run.spend.usage_unknown


async def test_nobody_listens(duraton, provider):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://user:pass@127.0.0.1:{free.getsockname()[1]}"
        run, made = await outcome(duraton, asking(RetryConfig(2), base_url=url))
    assert (run.error.name, made) == ("InferenceError", [1, 2])
    assert "pass@" not in run.error.message
    assert not run.spend.usage_unknown


async def test_an_endpoint_that_stays_silent_is_a_failure(duraton, provider):
    provider.script = ["silence"]
    run, made = await outcome(duraton, asking(RetryConfig(1), timeout="20ms"))
    assert (made, run.error.name) == ([1], "InferenceError")
    assert "ReadTimeout" in run.error.message


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"base_url": "localhost:1"}, "base_url"),
        ({"temperature": float("nan")}, "cannot be written"),
        ({"api_key": "sk-\nx"}, "no header takes"),
        ({"base_url": "https://api.openai.com/v1"}, "OPENAI_API_KEY"),
    ],
)
async def test_a_call_that_cannot_be_made_is_final(duraton, provider, monkeypatch, options, says):
    monkeypatch.delenv("OPENAI_API_KEY")
    run, made = await outcome(duraton, asking(RetryConfig(3), **options))
    assert (run.status, run.error.code, made) == ("failed", "step-misused", [1])
    assert says in run.error.message and provider.asked == []


async def test_the_cap_halts_it_before_the_endpoint_is_asked(duraton, provider):
    async def handle(ctx):
        for _ in range(3):
            await ctx.step.ai.infer("ask", model="m-1", messages=MESSAGES, api_key="sk-other")

    run, made = await outcome(duraton, define_workflow("w", handle, cap={"maxTokens": 50}))
    assert (run.error.name, len(made), len(provider.asked)) == ("BudgetError", 2, 2)
    assert provider.asked[0][1]["authorization"] == "Bearer sk-other"


async def test_the_agent_of_the_guide_ends_when_the_model_says_so(duraton, provider):
    page = (Path(__file__).parents[2] / "docs/guides/ai-spend.md").read_text()
    (agent,) = (
        each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "infer(" in each
    )
    names = {}
    exec(compile(agent, "docs/guides/ai-spend.md", "exec"), names)
    provider.script = [whole("a"), whole("b"), whole("DONE")]
    async with duraton(names["converse_wf"]) as engine:
        [answer] = await engine.send("ticket.created", {"text": "It does not start."})
        await engine.settle()
        run = await engine.run(answer.run_id)
        assert (run.output, run.spend.tokens) == (6, 75)
    assert [len(body["messages"]) for body, _ in provider.asked] == [1, 3, 5]


async def test_an_agent_s_turns_are_not_asked_again_after_a_crash(duraton, provider):
    async def handle(ctx):
        messages = list(MESSAGES)
        for _ in range(3):
            answer = await ctx.step.ai.infer("turn", model="m-1", messages=messages)
            messages.append(answer["choices"][0]["message"])
            await ctx.step.sleep("nap", "1m")
        return len(messages)

    async with duraton(define_workflow("w", handle)) as engine:
        [answer] = await engine.send("w")
        await engine.settle()
        await engine.crash(runner=True)
        await engine.advance("10m")
        assert (await engine.run(answer.run_id)).output == 4
        assert [len(body["messages"]) for body, _ in provider.asked] == [1, 2, 3]
