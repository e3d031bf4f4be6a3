"""The vectors beside docs/reference/wire-protocol.md, which SDKs in other languages read too."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from duraton import App, define_workflow
from duraton.runtime.runner import Runner
from duraton.signing import verify
from duraton_schemas.wire.frames import (
    Hello,
    decode_from_engine,
    decode_from_runner,
    encode,
)

VECTORS = json.loads((Path(__file__).parents[2] / "docs/reference/wire-vectors.json").read_text())


def plain(frame):
    return json.loads(msgspec.json.encode(frame))


@pytest.mark.parametrize("vector", VECTORS["frames"], ids=lambda v: v["name"])
def test_frames_have_the_stated_bytes(vector):
    decode = decode_from_runner if vector["from"] == "runner" else decode_from_engine
    frames = decode(bytes.fromhex(vector["msgpack"]))
    assert [plain(frame) for frame in frames] == [vector["json"]]
    assert encode(frames).hex() == vector["msgpack"]


def test_every_frame_has_a_vector():
    assert {v["json"]["type"] for v in VECTORS["frames"]} == {
        "hello", "ping", "drain", "step", "suspend", "complete", "fail",
        "invoke", "ack", "wake", "pause", "cancel", "stale", "refused",
    }  # fmt: skip


def test_the_signature_is_as_stated():
    vector = VECTORS["signature"]
    body = bytes.fromhex(vector["body"])
    assert verify(vector["key"], body, vector["header"], vector["at"] + 299) is None
    assert verify(vector["key"], body, vector["header"], vector["at"] + 301)
    assert verify("other", body, vector["header"], vector["at"])
    assert verify(vector["key"], body + b"x", vector["header"], vector["at"])
    assert verify(vector["key"], body, "", vector["at"])


async def value(x):
    return x


async def three(ctx):
    return [await ctx.step.run(id, value, n) for n, id in enumerate("abc", 1)]


async def nap(ctx):
    await ctx.step.sleep("nap", 1000)
    return await ctx.step.run("after", value, "done")


async def race(ctx):
    order = []

    async def branch(id):
        order.append(await ctx.step.run(id, value, id))

    await asyncio.gather(branch("a"), branch("b"))
    return order


async def flaky(ctx):
    async def code():
        from duraton.context import current_step

        if current_step().attempt == 1:
            raise ValueError("not yet")
        return "ok"

    return await ctx.step.run("a", code)


async def ask(ctx):
    async def answer():
        return {"model": "m-1", "usage": {"prompt_tokens": 60, "completion_tokens": 40}}

    await ctx.step.ai.wrap("a", answer)
    await ctx.step.ai.wrap("b", answer)


PROGRAMS = {"ask": ask, "three": three, "nap": nap, "race": race, "flaky": flaky}


@pytest.mark.parametrize("vector", VECTORS["conversations"], ids=lambda v: v["name"])
async def test_conversations_go_as_stated(vector):
    app = App("shop", [define_workflow("order.created", PROGRAMS[vector["program"]])])
    sent = []
    runner = Runner(app, sent.extend, now_ms=lambda: 0)
    runner.hello()
    runner.receive([Hello(node="n")])
    for turn in vector["steps"]:
        if "engine" in turn:
            runner.receive(decode_from_engine(msgspec.msgpack.encode(turn["engine"])))
            for _ in range(60):
                await asyncio.sleep(0)
        elif "reconnect" in turn:
            sent.clear()
            runner.disconnected()
            assert len(runner.hello().tokens) == 1
            runner.receive([Hello(node="n")])
            for _ in range(60):
                await asyncio.sleep(0)
        else:
            expected = turn["runner"]
            got, sent[:] = sent[: len(expected) or None], sent[len(expected) or None :]
            assert [known(plain(frame)) for frame in got] == [known(each) for each in expected]
    assert not sent
    runner.close()
    await asyncio.sleep(0)


def known(frame):
    """A frame without what differs from language to language."""
    frame = {key: value for key, value in frame.items() if key != "startedAt"}
    if "error" in frame:
        error = {k: v for k, v in frame["error"].items() if k != "stack"}
        if error.get("code") in ("nondeterministic", "cap-reached"):
            error["message"] = ""
        frame["error"] = error
    return frame
