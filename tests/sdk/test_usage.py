"""What an answer says it used: the forms of the providers, and what is none."""

import math
from types import SimpleNamespace as Object

import pytest
from scripted_engine import ScriptedEngine

from duraton import App, RetryConfig, define_workflow
from duraton.ai import Usage, meter
from duraton.runtime.tally import Tally
from duraton.usage import usage_itself, usage_of
from duraton_schemas.cap import TOKENS_MAX
from duraton_schemas.wire.frames import USAGES_MAX, FrameUsage, Step


def used(tokens, prompt=0, completion=0, cached=0, cache_writes=0, **more):
    return FrameUsage(
        tokens=tokens, prompt=prompt, completion=completion, cached=cached,
        cache_writes=cache_writes, **more,
    )  # fmt: skip


CHAT = {
    "prompt_tokens": 1000,
    "completion_tokens": 10,
    "total_tokens": 1010,
    "prompt_tokens_details": {"cached_tokens": 900, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
RESPONSES = {
    "input_tokens": 1000,
    "output_tokens": 10,
    "total_tokens": 1010,
    "input_tokens_details": {"cached_tokens": 900},
}
ANTHROPIC = {
    "input_tokens": 50,
    "output_tokens": 10,
    "cache_creation_input_tokens": 50,
    "cache_read_input_tokens": 900,
}


def as_objects(value):
    if isinstance(value, dict):
        return Object(**{name: as_objects(each) for name, each in value.items()})
    return value


@pytest.mark.parametrize("wrap", [dict, as_objects], ids=["mapping", "object"])
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (CHAT, used(1010, 1000, 10, 900)),
        (RESPONSES, used(1010, 1000, 10, 900)),
        (ANTHROPIC, used(1010, 1000, 10, 900, 50)),
        ({"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": None}, used(6, 5, 1)),
        # A gateway that gives both: then what is cached is part of the prompt.
        (ANTHROPIC | {"prompt_tokens": 1000}, used(1010, 1000, 10, 900, 50)),
        ({"prompt_tokens": 8, "total_tokens": 8}, used(8, 8)),
        ({"total_tokens": 7}, used(7)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, used(0)),
        ({"prompt_tokens": 3.0, "completion_tokens": 1}, used(4, 3, 1)),
    ],
)
def test_the_forms_that_are_known(wrap, usage, expected):
    expected.model = "m-1"
    assert usage_of(wrap({"model": "m-1", "usage": wrap(usage)})) == expected


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (None, 0),
        ({}, 0),
        ({"tokens": 5}, 0),
        (5, 0),
        ({"prompt_tokens": math.nan, "completion_tokens": 10}, 10),
        ({"prompt_tokens": math.inf, "completion_tokens": 10}, 10),
        ({"prompt_tokens": -5, "completion_tokens": 10}, 10),
        ({"prompt_tokens": "many", "completion_tokens": 10}, 10),
        ({"prompt_tokens": True, "completion_tokens": 10}, 10),
        ({"prompt_tokens": 1.5, "completion_tokens": 10}, 10),
        ({"prompt_tokens": 10**30, "completion_tokens": 10}, 10),
        ({"total_tokens": -1}, 0),
    ],
)
def test_what_is_not_known_counts_nothing_and_is_flagged(usage, tokens):
    found = usage_of({"usage": usage})
    assert (found.tokens, found.unknown) == (tokens, True)


def test_cached_tokens_beyond_the_prompt_are_cut():
    found = usage_of({"usage": {"prompt_tokens": 100, "cached_tokens": 900}})
    assert (found.tokens, found.cached, found.unknown) == (100, 100, False)


def test_counts_stop_at_what_can_be_written():
    usage = {"prompt_tokens": TOKENS_MAX, "completion_tokens": TOKENS_MAX}
    assert usage_of({"usage": usage}).tokens == TOKENS_MAX
    tally = Tally()
    for _ in range(3):
        tally.add(usage_of({"usage": usage}))
    assert [each.tokens for each in tally.usages] == [TOKENS_MAX]


class Hostile:
    def __getattr__(self, name):
        raise RuntimeError(name)


def test_no_answer_makes_it_raise():
    for answer in (Hostile(), {"usage": Hostile()}, None, 5, "text", [1]):
        assert usage_of(answer).unknown
        assert usage_itself(answer).unknown


def test_a_usage_function_that_raises_costs_no_answer(caplog):
    assert usage_of({}, lambda answer: answer["usage"], "m") == FrameUsage(model="m", unknown=True)
    assert "cannot be read" in caplog.text


@pytest.mark.parametrize(
    ("cost", "micros"),
    [(0.01, 10_000), (0, 0), (0.07, 70_000), (1e-9, 1), (12, 12_000_000), (0.1 + 0.2, 300_000)],
)
def test_a_stated_cost_is_in_dollars(cost, micros):
    found = usage_of("answer", lambda _: Usage(prompt_tokens=5, cost=cost))
    assert (found.cost, found.tokens, found.unknown) == (micros, 5, False)


@pytest.mark.parametrize("cost", [-1, math.nan, math.inf, True, "1", 1e12, object()])
def test_a_stated_cost_that_is_none_is_not_taken(cost):
    found = usage_of("answer", lambda _: {"prompt_tokens": 5, "cost": cost})
    assert (found.cost, found.tokens, found.unknown) == (None, 5, True)


def test_a_cost_in_the_answer_itself_is_not_taken():
    # Nobody knows in which money a gateway counts, unless the author says so.
    assert usage_of({"usage": CHAT | {"cost": 3}}).cost is None


@pytest.mark.parametrize(
    ("answer", "usage", "fallback", "model"),
    [
        ({"model": "a"}, lambda _: Usage(model="b"), "c", "b"),
        ({"model": "a"}, lambda _: Usage(), "c", "a"),
        ({"model": None}, None, "c", "c"),
        ({"model": 5}, None, None, None),
        ({"model": "x" * 1000}, None, None, "x" * 200),
        ({"model": "\ud800"}, None, None, "\\ud800"),
    ],
)
def test_which_model_it_was(answer, usage, fallback, model):
    assert usage_of(answer, usage, fallback).model == model


def test_a_tally_sums_by_model_and_stays_short():
    tally = Tally()
    for number in range(USAGES_MAX + 5):
        tally.add(used(1, 1, model=f"m-{number}"))
    tally.add(used(2, 2, model="m-0"))
    tally.add(used(0, model="m-0", cost=5))
    assert len(tally.usages) == USAGES_MAX
    assert sum(each.tokens for each in tally.usages) == USAGES_MAX + 7
    assert tally.usages[0] == used(3, 3, model="m-0")
    assert (tally.usages[-1].model, tally.usages[-1].cost) == (None, None)


# In a step ------------------------------------------------------------------


async def frames(handle, **options):
    engine = ScriptedEngine(App("shop", [define_workflow("work", handle, **options)]))
    run = engine.start("work")
    await engine.settle()
    return run, [frame for frame in engine.sent if isinstance(frame, Step)]


async def test_the_model_of_the_call_serves_where_the_answer_names_none():
    def create(*, model, messages):
        return {"usage": {"prompt_tokens": len(messages)}}

    async def handle(ctx):
        return await ctx.step.ai.wrap("ask", create, model="m-1", messages=["hi"])

    run, [frame] = await frames(handle)
    assert run.output == {"usage": {"prompt_tokens": 1}}
    assert (frame.kind, frame.usage) == ("ai", [used(1, 1, model="m-1")])


@pytest.mark.parametrize("threaded", [True, False])
async def test_code_that_meters_by_itself_meters_alone(threaded):
    def plain():
        meter({"usage": {"prompt_tokens": 5}})
        meter(Usage(prompt_tokens=1, completion_tokens=1))
        meter({"input_tokens": 2, "output_tokens": 1})
        return {"usage": {"prompt_tokens": 1_000}}

    async def awaited():
        return plain()

    async def handle(ctx):
        await ctx.step.ai.wrap("ask", plain if threaded else awaited)

    _, [frame] = await frames(handle)
    assert frame.usage == [used(10, 8, 2)]


async def test_with_usage_stated_the_answer_counts_beside_what_was_metered():
    async def ask():
        meter(Usage(prompt_tokens=5))
        return {"n": 3}

    async def handle(ctx):
        await ctx.step.ai.wrap("ask", ask, usage=lambda a: Usage(completion_tokens=a["n"]))

    _, [frame] = await frames(handle)
    assert frame.usage == [used(8, 5, 3)]


async def test_each_attempt_is_metered_by_itself():
    async def ask():
        meter(Usage(prompt_tokens=5))
        raise ValueError("no")

    async def handle(ctx):
        await ctx.step.ai.wrap("ask", ask, retry=RetryConfig(2))

    engine = ScriptedEngine(App("shop", [define_workflow("work", handle)]))
    run = engine.start("work")
    await engine.settle()
    engine.due(run, "ask")
    await engine.settle()
    steps = [frame for frame in engine.sent if isinstance(frame, Step)]
    assert [(frame.attempt, frame.usage) for frame in steps] == [
        (1, [used(5, 5)]),
        (2, [used(5, 5)]),
    ]


async def test_a_call_that_fails_before_it_is_metered_counts_nothing():
    async def handle(ctx):
        await ctx.step.ai.wrap("ask", lambda: 1 / 0)

    _, [frame] = await frames(handle)
    assert frame.usage == [] and frame.error.name == "ZeroDivisionError"


async def test_an_answer_that_cannot_be_stored_is_paid_for():
    async def handle(ctx):
        await ctx.step.ai.wrap("ask", lambda: Object(usage=Object(prompt_tokens=5), raw=b"x"))

    _, [frame] = await frames(handle)
    assert frame.error.code == "value-not-json" and frame.usage == [used(5, 5)]


async def test_parse_may_be_a_coroutine_function_and_its_output_is_the_step_s():
    async def parse(answer):
        return answer["text"].upper()

    async def handle(ctx):
        return await ctx.step.ai.wrap("ask", lambda: {"text": "hi", "usage": CHAT}, parse=parse)

    run, [frame] = await frames(handle)
    assert run.output == "HI" and frame.usage == [used(1010, 1000, 10, 900)]


async def test_other_steps_are_not_metered():
    async def handle(ctx):
        await ctx.step.run("a", lambda: {"usage": CHAT})
        await ctx.step.run("b", lambda: meter(Usage()))

    run, [first, second] = await frames(handle)
    assert first.usage == [] and second.error.name == "LookupError"
    assert run.error is second.error or run.error == second.error


def test_meter_outside_of_a_step():
    with pytest.raises(LookupError, match=r"ctx\.step\.ai\.wrap"):
        meter(Usage())
