"""Section A of the cases: keys and scopes."""

import pytest
from case_tools import send
from flow_tools import given, produce, send_at, send_each, starts, unchecked, working

from duraton import (
    ConcurrencyConfig,
    DebounceConfig,
    IdempotencyConfig,
    SingletonConfig,
    ThrottleConfig,
)
from duraton.testing import RefusedError

NO_SCALARS = [{"acc": {"id": 1}}, {"acc": [1]}, {"acc": None}, {}, None]
"""The last is an event whose data is null, which the kit's POST leaves out as anybody's may."""


async def test_case_002_what_is_no_scalar_falls_back_to_the_whole_workflow(engine_of):
    workflow = working(1, concurrency=ConcurrencyConfig(1, key="acc"))
    async with engine_of(workflow) as engine:
        answers = await send_each(engine, NO_SCALARS)
        await engine.advance("1m")
        assert engine.started == [("w", answer.run_id, n) for n, answer in enumerate(answers)]


async def test_case_002_also_on_the_topic(engine_of):
    workflow = working(1, concurrency=ConcurrencyConfig(1, key="acc"))
    async with engine_of(workflow) as engine:
        produce(engine, *({"name": "w", "data": data} for data in NO_SCALARS))
        await engine.advance("1m")
        wanted = [(n, [data]) for n, data in enumerate(NO_SCALARS)]
        assert await given(engine) == wanted


async def test_case_002_those_events_do_not_count_against_the_others(engine_of):
    # One bucket for all unresolved events, apart from the resolved ones (P2).
    workflow = working(1, concurrency=ConcurrencyConfig(1, key="acc"))
    async with engine_of(workflow) as engine:
        await send_each(engine, [{}, {"acc": "a"}, {"acc": "b"}, {}])
        await engine.advance("1m")
        assert starts(engine) == [0, 0, 0, 1]


@pytest.mark.parametrize(
    "key",
    ["constructor", "__proto__.x", "name.length", "keys", "__class__.__name__", "name.__len__"],
)
async def test_case_003_a_path_sees_own_fields_only(engine_of, key):
    # The last three are what objects of this engine's own language would inherit.
    workflow = working(1, singleton=SingletonConfig(key=key, mode="skip"))
    async with engine_of(workflow) as engine:
        answers = await send_at(
            engine, (0, {}), (0, {}), (10, {"name": "abcd"}), (10, {"name": "abcd"})
        )
        assert [answer.skipped for answer in answers] == [False, True, False, True]
        assert starts(engine) == [0, 10]


async def test_case_003_events_of_all_kinds_share_that_bucket(engine_of):
    workflow = working(1, singleton=SingletonConfig(key="name.length"))
    async with engine_of(workflow) as engine:
        answers = await send_each(engine, [{}, {"name": "abcd"}, {"name": "abc"}])
        assert [answer.skipped for answer in answers] == [False, True, True]


async def test_case_004_a_nested_read_beats_a_flat_field_with_a_dot(engine_of):
    workflow = working(idempotency=IdempotencyConfig(key="user.id", period_ms=60_000))
    async with engine_of(workflow) as engine:
        first, second, third = await send_each(
            engine,
            [
                {"user.id": "A", "user": {"id": "B"}},
                {"user.id": "C", "user": {"id": "B"}},
                {"user.id": "A", "user": {"id": "D"}},
            ],
        )
        assert [answer.deduped for answer in (first, second, third)] == [False, True, False]
        assert second.run_id is None


async def test_case_004_a_lone_flat_field_is_missing(engine_of):
    # It cannot be addressed (P3), so both are unresolved and dedupe each other (P2).
    workflow = working(idempotency=IdempotencyConfig(key="user.id", period_ms=60_000))
    async with engine_of(workflow) as engine:
        answers = await send_each(engine, [{"user.id": "A"}, {"user.id": "C"}])
        assert [answer.deduped for answer in answers] == [False, True]


KEYED = {
    "concurrency": {"limit": 1},
    "throttle": {"limit": 1, "perMs": 1000},
    "rate_limit": {"limit": 1, "perMs": 1000},
    "debounce": {"periodMs": 1000},
    "batch": {"maxSize": 2, "timeoutMs": 1000},
    "singleton": {"mode": "skip"},
    "idempotency": {"periodMs": 1000},
    "token_throttle": {"tokens": 1, "perMs": 1000},
}
WIRE_NAMES = {"rate_limit": "rateLimit", "token_throttle": "tokenThrottle"}


@pytest.mark.parametrize("control", KEYED)
async def test_case_005_a_malformed_path_leaves_the_old_version_in_force(engine_of, control):
    # The SDK refuses it before it is sent (tests/schemas/test_controls_refused.py); here
    # it comes from an SDK that does not look.
    old = working(name="w", idempotency=IdempotencyConfig("orderId", 60_000))
    async with engine_of(old) as engine:
        for path in ("", ".a", "a.", "a..b"):
            new = unchecked(
                working(name="w", step="newer"), **{control: {**KEYED[control], "key": path}}
            )
            with pytest.raises(RefusedError, match=WIRE_NAMES.get(control, control)):
                await engine.register(new)
        answers = await send_each(engine, [{"orderId": 1}, {"orderId": 1}, {"orderId": 2}])
        await engine.settle()
        assert [answer.deduped for answer in answers] == [False, True, False]
        assert [step for _, step, _, _ in engine.executions] == ["work", "work"]


async def test_case_005_also_the_flows_own_key(engine_of):
    async with engine_of(working()) as engine:
        for path in ("", ".a", "a.", "a..b"):
            new = unchecked(working(step="newer"), key=path, together={"max": 1})
            with pytest.raises(RefusedError, match="key"):
                await engine.register(new)
        await send(engine, "w")
        await engine.settle()
        assert [step for _, step, _, _ in engine.executions] == ["work"]


async def test_case_007_a_number_and_its_digits_as_text(engine_of):
    workflow = working(idempotency=IdempotencyConfig(key="id", period_ms=60_000))
    async with engine_of(workflow) as engine:
        produce(
            engine,
            *({"name": "w", "data": {"id": same}} for same in (1, "1", 1.0)),
            *({"name": "w", "data": {"id": same}} for same in (True, "true")),
            *({"name": "w", "data": {"id": other}} for other in ("", " 1", "01")),
        )
        await engine.settle()
        runs = [data["id"] for _, [data] in await given(engine)]
        assert runs == [1, True, "", " 1", "01"]
        answers = await send_each(engine, [{"id": "1"}, {"id": 1.0}, {"id": 1}])
        assert [answer.deduped for answer in answers] == [True, True, True]
        assert len(engine.started) == 5


async def test_case_008_two_workflows_with_the_same_key_do_not_touch_each_other(engine_of):
    debounce = DebounceConfig(5_000, key="doc")
    workflows = [working(name=name, triggers=["e"], debounce=debounce) for name in ("w1", "w2")]
    async with engine_of(*workflows) as engine:
        answers = await engine.send("e", {"doc": 1})
        assert {(each.workflow, each.buffered) for each in answers} == {("w1", True), ("w2", True)}
        await engine.advance("1m")
        assert await given(engine, "w1") == [(5, [{"doc": 1}])]
        assert await given(engine, "w2") == [(5, [{"doc": 1}])]


async def test_case_009_a_keyed_limit_is_not_one_global_limit(engine_of):
    workflow = working(throttle=ThrottleConfig(1, 10_000, key="k"))
    async with engine_of(workflow) as engine:
        await send_each(engine, [{"k": n} for n in range(10)])
        eleventh = await send(engine, "w", {"k": 0})
        await engine.advance("1m")
        assert starts(engine) == [0] * 10 + [10]
        assert engine.started[-1][1] == eleventh
