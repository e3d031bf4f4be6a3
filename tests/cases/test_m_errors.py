"""Section M of the cases: errors that steer retries."""

import asyncio
import socket
from datetime import UTC, datetime, timedelta

import pytest
from case_tools import Flaky, attempts_of, one_step, raising, runs_of, send, status

from duraton import NonRetriableError, RetryAfterError, RetryConfig, define_workflow


@pytest.mark.parametrize("attempt", [1, 2])
async def test_case_153_non_retriable_error_inside_a_step(duraton, attempt):
    handled = []

    def error(n):
        return NonRetriableError("no key") if n == attempt else ValueError("again")

    async def on_failure(ctx):
        handled.append(ctx.error.message)

    workflow = one_step(Flaky(9, error=error), retry=RetryConfig(5), on_failure=on_failure)
    async with duraton(workflow) as engine:
        run = await send(engine, "w")
        await engine.advance("1m")
        assert attempts_of(engine, "work") == list(range(1, attempt + 1))
        shown = await engine.run(run)
        assert (shown.status, shown.error.message) == ("failed", "no key")
        assert handled == ["no key"]


class BadKeyError(NonRetriableError):
    """A subclass, as users make them."""


def from_final():
    error = ValueError("outer")
    error.__cause__ = NonRetriableError("inner")
    return error


def in_group():
    return ExceptionGroup("group", [ValueError("v"), NonRetriableError("final")])


def in_group_in_group():
    return ExceptionGroup("outer", [ExceptionGroup("inner", [NonRetriableError("final")])])


@pytest.mark.parametrize("make", [BadKeyError, from_final, in_group, in_group_in_group])
async def test_case_154_wrapped_subclassed_grouped(duraton, make):
    # Go's %w and JavaScript's cause are of other languages.
    async with duraton(one_step(raising(make), retry=RetryConfig(5))) as engine:
        run = await send(engine, "w")
        await engine.advance("1m")
        assert runs_of(engine, "work") == [0]
        assert await status(engine, run) == "failed"


async def test_case_154_a_task_group_raises_the_group(duraton):
    async def work():
        async with asyncio.TaskGroup() as group:
            group.create_task(raising(lambda: ValueError("v"))())
            group.create_task(raising(lambda: NonRetriableError("final"))())

    async with duraton(one_step(work, retry=RetryConfig(5))) as engine:
        run = await send(engine, "w")
        await engine.advance("1m")
        assert runs_of(engine, "work") == [0]
        assert "final" in (await engine.run(run)).error.message


async def test_case_154_an_implicit_context_is_not_a_cause(duraton):
    async def work():
        try:
            raise NonRetriableError("handled")
        except NonRetriableError:
            raise ValueError("another")  # noqa: B904 - the implicit context is what is tested

    async with duraton(one_step(work, retry=RetryConfig(2))) as engine:
        await send(engine, "w")
        await engine.advance("1m")
        assert runs_of(engine, "work") == [0, 1]


async def test_case_155_an_ordinary_group_is_retried_as_one_failure(duraton):
    def make():
        return ExceptionGroup("two", [ValueError("first"), ValueError("second")])

    async with duraton(one_step(raising(make), retry=RetryConfig(3))) as engine:
        run = await send(engine, "w")
        await engine.advance("1m")
        assert runs_of(engine, "work") == [0, 1, 2]
        shown = await engine.run(run)
        assert shown.status == "failed"
        assert "first" in shown.error.message
        assert "second" in shown.error.message


def at(engine, seconds):
    """A moment so many seconds from now, as a datetime."""
    return datetime.fromtimestamp(engine.clock.now_ms() / 1000, UTC) + timedelta(seconds=seconds)


async def second_attempt(duraton, argument, **retry):
    """When the second attempt runs after a RetryAfterError with that argument; its note."""
    engines = []

    def error(n):
        given = argument(engines[0]) if callable(argument) else argument
        return RetryAfterError("later", given)

    workflow = one_step(Flaky(1, error=error), retry=RetryConfig(**{"max_attempts": 2, **retry}))
    async with duraton(workflow) as engine:
        engines.append(engine)
        run = await send(engine, "w")
        await engine.settle()
        [step] = (await engine.run(run)).steps
        await engine.advance("1d")
        assert await status(engine, run) == "completed"
        assert attempts_of(engine, "work") == [1, 2]
        return runs_of(engine, "work")[1], step.errors[0].error.note


@pytest.mark.parametrize(
    ("argument", "seconds"),
    [
        ("30s", 30),
        (30_000, 30),
        (lambda engine: at(engine, 30), 30),
        (timedelta(seconds=30), 30),  # Go's 30*time.Second, as Python has it
        ("1.5m", 90),
        ("500ms", 0.5),
    ],
)
async def test_case_158_units_and_forms(duraton, argument, seconds):
    assert await second_attempt(duraton, argument) == (seconds, None)


async def test_case_159_a_delay_beyond_max_delay_is_honoured(duraton):
    assert await second_attempt(duraton, "5m", max_delay_ms=30_000) == (300, None)


@pytest.mark.parametrize("argument", [lambda engine: at(engine, -3600), -5])
async def test_case_160_moments_in_the_past(duraton, argument):
    assert await second_attempt(duraton, argument) == (0, None)


@pytest.mark.parametrize(
    "argument", ["soon", "", "-3", "1.5", float("nan"), None, float("inf"), object()]
)
async def test_case_161_malformed_delays_fall_back_to_the_policy(duraton, argument):
    # An invalid Date is JavaScript's; object() stands for what is no delay at all.
    seconds, note = await second_attempt(duraton, lambda _engine: argument)
    assert seconds == 1
    assert "unusable" in note


@pytest.mark.parametrize("argument", ["120", "Mon, 30 Nov 2026 12:02:00 GMT"])
async def test_case_162_raw_retry_after_headers(argument):
    from duraton.testing import Engine

    workflow = one_step(
        Flaky(1, error=lambda n: RetryAfterError("later", argument)), retry=RetryConfig(2)
    )
    async with Engine(workflow, start="2026-11-30T12:00:00Z") as engine:
        await send(engine, "w")
        await engine.advance("1h")
        assert runs_of(engine, "work") == [0, 120]


class CyclicError(Exception):
    def __init__(self):
        super().__init__("cyclic")
        self.itself = self


class SocketError(Exception):
    def __init__(self):
        super().__init__("with a socket")
        self.socket = socket.socket


class ThreeArgumentsError(Exception):
    def __init__(self, one, two, three):
        super().__init__(f"{one} {two} {three}")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (CyclicError, "cyclic"),
        (SocketError, "with a socket"),
        (lambda: ThreeArgumentsError("a", "b", "c"), "a b c"),
    ],
)
async def test_case_163_an_error_that_cannot_be_serialised_keeps_its_message(
    duraton, make, message
):
    # `throw "text"` and `throw undefined` are JavaScript's: Python raises exceptions only.
    async with duraton(one_step(raising(make), retry=RetryConfig(2))) as engine:
        run = await send(engine, "w")
        await engine.advance("1m")
        assert runs_of(engine, "work") == [0, 1]
        assert (await engine.run(run)).error.message == message


@pytest.mark.parametrize("attempts", [1, 3])
async def test_case_164_a_throw_between_steps(duraton, attempts):
    seen = []

    async def handle(ctx):
        seen.append((ctx.attempt, await ctx.step.run("a", lambda: len(seen))))
        raise KeyError("between")

    retry = RetryConfig(attempts) if attempts > 1 else None
    async with duraton(define_workflow("w", handle, retry=retry)) as engine:
        run = await send(engine, "w")
        await engine.advance("1m")
        assert runs_of(engine, "a") == [0]
        assert seen == [(n, 0) for n in range(1, attempts + 1)]
        shown = await engine.run(run)
        assert shown.status == "failed"
        assert "between" in shown.error.message
        ended = engine.facts(run)[-1].at - engine.clock.start_ms
        assert ended == 1000 * (attempts - 1)
