import socket
from datetime import UTC, datetime, timedelta, timezone

import pytest

from duraton import NonRetriableError, RetryAfterError
from duraton.runtime.failure_log import FailureLog
from duraton.runtime.failures import frame_error
from duraton_schemas.wire.frames import FrameError

YEAR_MS = 366 * 86_400_000


class OwnFinalError(NonRetriableError):
    pass


class OtherCopyError(Exception):
    """As a second copy of the SDK would have it."""

    __duraton_final__ = True


def raised(make):
    try:
        make()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def caused_by(error):
    def make():
        raise ValueError("outer") from error

    return raised(make)


@pytest.mark.parametrize(
    "error",
    [
        NonRetriableError("x"),
        OwnFinalError("x"),
        OtherCopyError("x"),
        caused_by(NonRetriableError("x")),
        caused_by(caused_by(OwnFinalError("x"))),
        ExceptionGroup("g", [ValueError("a"), NonRetriableError("b")]),
        ExceptionGroup("g", [ExceptionGroup("h", [NonRetriableError("b")])]),
        caused_by(ExceptionGroup("g", [NonRetriableError("b")])),
        ExceptionGroup("g", [RetryAfterError("later", "30s"), NonRetriableError("b")]),
    ],
    ids=repr,
)
def test_what_cannot_be_retried_is_final_wherever_it_is(error):
    frame = frame_error(error)
    assert frame.final
    assert frame.retry_after_ms is None and frame.retry_at is None


def test_an_implicit_context_is_not_a_cause():
    def make():
        try:
            raise NonRetriableError("first")
        except NonRetriableError:
            raise ValueError("second")  # noqa: B904 - the implicit context is what is tested

    assert not frame_error(raised(make)).final


def at(moment):
    return round(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("argument", "after_ms"),
    [
        ("30s", 30_000), (30_000, 30_000), (30_000.4, 30_000), (timedelta(seconds=30), 30_000),
        ("1.5m", 90_000), ("500ms", 500), ("120", 120_000), (" 120 ", 120_000), (-5, 0), (0, 0),
        (timedelta(hours=-1), 0), (10**30, YEAR_MS), ("99999999999", YEAR_MS), ("900d", YEAR_MS),
    ],
)  # fmt: skip
def test_delays_from_the_failure(argument, after_ms):
    frame = frame_error(RetryAfterError("x", argument))
    assert (frame.retry_after_ms, frame.retry_at, frame.note) == (after_ms, None, None)


@pytest.mark.parametrize(
    ("argument", "moment"),
    [
        ("Mon, 30 Nov 2026 12:02:00 GMT", datetime(2026, 11, 30, 12, 2, tzinfo=UTC)),
        ("Monday, 30-Nov-26 12:02:00 GMT", datetime(2026, 11, 30, 12, 2, tzinfo=UTC)),
        # Naive moments are read as UTC.
        (
            datetime(2026, 11, 30, 12, 2, tzinfo=UTC).replace(tzinfo=None),
            datetime(2026, 11, 30, 12, 2, tzinfo=UTC),
        ),
        (
            datetime(2026, 11, 30, 14, 2, tzinfo=timezone(timedelta(hours=2))),
            datetime(2026, 11, 30, 12, 2, tzinfo=UTC),
        ),
    ],
)
def test_delays_to_a_moment(argument, moment):
    frame = frame_error(RetryAfterError("x", argument))
    assert (frame.retry_after_ms, frame.retry_at, frame.note) == (None, at(moment), None)


@pytest.mark.parametrize(
    "argument",
    ["soon", "", "-3", "1.5", float("nan"), None, float("inf"), True, b"30", [1], "Mon, nonsense",
     "9" * 5000],
    ids=lambda a: repr(a)[:20],
)  # fmt: skip
def test_unusable_delays_leave_a_note(argument):
    frame = frame_error(RetryAfterError("x", argument))
    assert frame.retry_after_ms is None and frame.retry_at is None
    assert frame.note is not None and "unusable" in frame.note and len(frame.note) < 250


def test_a_group_names_its_members():
    frame = frame_error(ExceptionGroup("two", [ValueError("one"), KeyError("other")]))
    assert "one" in frame.message and "other" in frame.message and not frame.final


class AwkwardError(Exception):
    def __init__(self, a, b, c):
        self.a = self
        self.b = b
        super().__init__(a, b, c)

    def __str__(self):
        raise RuntimeError("no text")


def test_errors_that_cannot_be_serialised_keep_what_they_say():
    with socket.socket() as held:
        frame = frame_error(AwkwardError("lost", held, 3))
    assert "lost" in frame.message and frame.name == "AwkwardError"
    assert frame_error(ValueError("\ud800 odd")).message == "\\ud800 odd"
    assert frame_error(ValueError()).message == "ValueError"
    assert len(frame_error(ValueError("x" * 100_000)).message) <= 8_192


def test_causes_that_go_round_end():
    a, b = ValueError("a"), ValueError("b")
    a.__cause__, b.__cause__ = b, a
    frame = frame_error(a)
    assert not frame.final and frame.stack is not None


def test_the_stack_shows_the_users_lines_only():
    def users_code():
        raise ValueError("here")

    frame = frame_error(raised(users_code))
    assert frame.stack is not None
    assert "users_code" in frame.stack and "sdk/duraton" not in frame.stack


def test_a_storm_of_failures_is_told_in_few_lines_that_steer_no_terminal(caplog, monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: clock)
    told, clock = FailureLog(), 0.0
    error = FrameError(message="bad\x1b[2J", name="E", stack='  File "shop.py", line 7, in f')
    told.tell("run_1", "shop", "step 'a', attempt 1,", error)
    assert caplog.messages == []  # off, unless a process asks for it
    caplog.set_level("INFO", "duraton.runs")
    for _ in range(1_000):
        told.tell("run_1", "shop", "step 'a', attempt 1,", error)
    assert len(caplog.messages) == 10
    assert caplog.messages[0] == "shop run_1: step 'a', attempt 1, failed: E: bad [2J at shop.py:7"
    clock = 1.0
    told.tell("run_1", "shop", "handler, attempt 1,", error)
    assert caplog.messages[10].endswith("at shop.py:7 (and 990 failures before it)")
