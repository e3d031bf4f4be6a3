"""What the hub remembers of a connection and of a runner process."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from duraton_api.runners.connection import Connection
from duraton_api.runners.settings import HubSettings
from duraton_engine.room import Seat
from duraton_schemas.wire.frames import Ack, Cancel, Frame, RunnerFrame, Stale


class Stage(Enum):
    """How far a connection has come."""

    NEW = auto()
    """Nothing was said yet."""
    GREETING = auto()
    """It said hello; its apps are being registered."""
    OPEN = auto()
    """Its runner takes runs."""
    CLOSED = auto()
    """Nothing that still comes from it counts."""


@dataclass(eq=False)
class Link:
    """A connection.

    Attributes:
        connection: What carries it.
        heard_ms: When the last message came.
        stage: How far it has come.
        runner: Whose it is, once open.
        early: Frames that came while the apps were being registered.
        early_bytes: The bytes of the messages that brought them.
        unanswered: How many answers were given to the engine and not acknowledged.
        unanswered_bytes: About the bytes of the messages that brought them.
        paused: Whether its connection is told to receive nothing.
        unsent: The bytes that its socket has not taken, when they were last counted.
    """

    connection: Connection
    heard_ms: int
    stage: Stage = Stage.NEW
    runner: "Runner | None" = None
    early: list[RunnerFrame] = field(default_factory=list)
    early_bytes: int = 0
    unanswered: int = 0
    unanswered_bytes: int = 0
    paused: bool = False
    unsent: int = 0
    _of_token: dict[str, int] = field(default_factory=dict)

    def count(self, token: str) -> None:
        """An answer was given to the engine."""
        self.unanswered += 1
        self._of_token[token] = self._of_token.get(token, 0) + 1

    def discount(self, frames: Iterable[Frame]) -> None:
        """The engine answered; the bytes of what it answered are taken to be the mean.

        A `cancel` stands for all that is unanswered of its token: what ends an invocation
        is not acknowledged.
        """
        before = self.unanswered
        for frame in frames:
            kind = type(frame)
            if kind is Ack or kind is Stale or kind is Cancel:
                token: str = frame.token  # type: ignore[attr-defined] # they all have one
                waiting = self._of_token.get(token, 0)
                left = waiting - 1 if kind is not Cancel else 0
                if left > 0:
                    self._of_token[token] = left
                elif waiting:
                    del self._of_token[token]
                self.unanswered -= waiting - max(left, 0)
        if self.unanswered < before:
            self.unanswered_bytes = self.unanswered_bytes * self.unanswered // before

    def hold_back(self, settings: HubSettings, now_ms: int) -> None:
        """Receive nothing while too many answers wait, until half of them are through.

        Args:
            settings: How many those are.
            now_ms: The time, which counts as the last sign of life when it goes on.
        """
        most, most_bytes = settings.unanswered_max, settings.unanswered_bytes_max
        if not self.paused:
            if self.unanswered > most or self.unanswered_bytes > most_bytes:
                self.paused = True
                self.connection.pause()
        elif self.unanswered <= most // 2 and self.unanswered_bytes <= most_bytes // 2:
            self.paused = False
            self.heard_ms = now_ms
            self.connection.resume()


@dataclass(eq=False)
class Runner:
    """A runner process, connected or waited for.

    Attributes:
        boot: Its random id.
        name: Its name.
        explicit: Whether a person gave the name, so that no second live boot may have it.
        capacity: How many runs it executes at once.
        offers: The (app, workflow) pairs that it executes.
        link: Its connection, or None while it is waited for.
        draining: Whether it said that it takes nothing new.
        slow: Whether it is given no new runs until it takes what it was sent.
        ended: Tokens from before its newest hello that the hello did not list: the
            engine ends them, so an invocation of theirs must not be sent any more.
        stop_waiting: Cancels the timer after which it counts as lost.
    """

    boot: str
    name: str
    explicit: bool
    capacity: int
    offers: frozenset[tuple[str, str]]
    link: Link | None = None
    draining: bool = False
    slow: bool = False
    ended: frozenset[str] = frozenset()
    stop_waiting: Callable[[], None] = lambda: None

    def seat(self) -> Seat:
        """Its seat in the room, as it stands now."""
        return Seat(
            boot=self.boot,
            name=self.name,
            transport="connect",
            offers=self.offers,
            capacity=self.capacity,
            draining=self.draining or self.link is None,
        )
