"""Bounds and deadlines of the gateway; every number has a unit and a reason."""

from dataclasses import dataclass

from duraton_schemas.wire.frames import MESSAGE_BYTES_MAX


@dataclass(frozen=True)
class HubSettings:
    """What the connections of runners are held to.

    In flight to the engine are at most `runners_max` x `unanswered_max` answers, and
    to the runners at most `unsent_bytes_max` a connection and `unsent_total_max` in all;
    connections are then slowed down or closed, and nothing of a run is lost by that.

    Attributes:
        ping_ms: How often each side gives a sign of life, in milliseconds; 0: never,
            and open connections are not watched (in-process pipes cannot go silent).
        silence_ms: How long an open connection may be silent before it is closed, and
            how long a closed one is waited for before its runner counts as lost.
        runners_max: The most runner processes, those waited for included.
        apps_max: The most apps that one runner may register.
        capacity_max: The most runs at once at one runner; a higher wish is cut.
        tokens_max: The most live invocations that one hello may list.
        early_bytes_max: The most bytes of answers kept while a runner's apps are being
            registered.
        unanswered_max: Answers of one connection that the engine has not acknowledged,
            from which on its socket is not read until half of them are.
        unanswered_bytes_max: The same in bytes of messages.
        unsent_bytes_slow: Bytes not yet taken by a runner's socket, from which on it is
            given no new runs until half of them are.
        unsent_bytes_max: Bytes from which on the connection is closed; the runner comes
            back and goes on with what it has.
        unsent_total_max: Bytes not yet taken by the sockets of all runners, from which on
            the connection for which most of them wait is closed.
    """

    ping_ms: int = 5_000
    silence_ms: int = 15_000
    runners_max: int = 10_000
    apps_max: int = 100
    capacity_max: int = 10_000
    tokens_max: int = 20_000
    early_bytes_max: int = MESSAGE_BYTES_MAX
    unanswered_max: int = 20_000
    unanswered_bytes_max: int = 64 << 20
    unsent_bytes_slow: int = 8 << 20
    unsent_bytes_max: int = 2 * MESSAGE_BYTES_MAX
    unsent_total_max: int = 512 << 20


@dataclass(frozen=True)
class ServeSettings:
    """What calls to served runners are held to.

    Attributes:
        capacity: The most calls in flight to one app.
        calls_max: The most calls in flight to all apps; further ones wait their turn.
        silence_ms: How long a call may pass without a byte from the runner. The SDK
            sends a byte every few seconds while it executes a long step.
        total_ms: How long a call may take in all, whatever signs of life it gives.
        answer_bytes_max: The most bytes of one answer.
        answers_bytes_max: The most bytes of all answers being received; an answer that
            does not fit is asked for again, at no cost to its run.
        signing_key: The key that requests are signed with, or None: not signed.
    """

    capacity: int = 128
    calls_max: int = 1_024
    silence_ms: int = 15_000
    total_ms: int = 24 * 3_600_000
    answer_bytes_max: int = MESSAGE_BYTES_MAX
    answers_bytes_max: int = 4 * MESSAGE_BYTES_MAX
    signing_key: str | None = None
