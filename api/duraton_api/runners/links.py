"""What the hub remembers of a connection and of a runner process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from duraton_api.runners.connection import Connection
from duraton_api.runners.settings import HubSettings
from duraton_engine.room import Seat
from duraton_schemas.wire.frames import RunnerFrame


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
        unanswered: Answers given to the engine and not acknowledged.
        unanswered_bytes: About the bytes of the messages that brought them.
        paused: Whether its connection is told to receive nothing.
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

    def count(self, answers: int, size: int) -> None:
        """Answers came in a message of that many bytes."""
        self.unanswered += answers
        self.unanswered_bytes += size

    def discount(self, answers: int) -> None:
        """Answers were acknowledged; their bytes are taken to be the mean."""
        left = max(self.unanswered - answers, 0)
        self.unanswered_bytes = self.unanswered_bytes * left // max(self.unanswered, 1)
        self.unanswered = left

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
