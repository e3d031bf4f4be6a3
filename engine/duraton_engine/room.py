"""Room at runners: the last entry of the admission list, kept in memory only (DESIGN 8).

One node has one room; its partitions and its gateway share it on one thread.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

SERVED_PREFIX = "serve:"
"""Begins the boot ids of served apps, which no process may take for itself: they have no
process that could come back."""


@dataclass
class Seat:
    """A runner process that can be invoked.

    Attributes:
        boot: Its random id; for a served app, `SERVED_PREFIX` and the app's name.
        name: Its name.
        transport: `connect` or `serve`.
        offers: The (app, workflow) pairs that it executes.
        capacity: How many runs it executes at once.
        draining: Whether it takes nothing new.
        tokens: The tokens that it holds.
        since_hello: Those of them that it was given after its newest hello, so that
            the hello's list says nothing about them.
    """

    boot: str
    name: str
    transport: str
    offers: frozenset[tuple[str, str]]
    capacity: int
    draining: bool = False
    tokens: set[str] = field(default_factory=set)
    since_hello: set[str] = field(default_factory=set)


class Room:
    """Which runners there are and what each of them executes.

    Args:
        freed: Called when a place becomes free while somebody had been refused one.
    """

    def __init__(self, freed: Callable[[], None] = lambda: None) -> None:
        self.freed = freed
        self.seats: dict[str, Seat] = {}
        self._offers: dict[tuple[str, str], list[Seat]] = {}
        self._refused = False

    def join(self, seat: Seat) -> None:
        """A runner came, or changed what it offers; it keeps the tokens that it holds."""
        old = self.seats.get(seat.boot)
        if old is not None:
            seat.tokens |= old.tokens
        self.seats[seat.boot] = seat
        self._index()
        self._refused = False
        self.freed()

    def leave(self, boot: str) -> None:
        """A runner is gone; its tokens are the partitions' to end."""
        if self.seats.pop(boot, None) is not None:
            self._index()

    def drain(self, boot: str) -> None:
        """A runner takes nothing new."""
        seat = self.seats.get(boot)
        if seat is not None:
            seat.draining = True

    def offered(self, app: str, workflow: str) -> bool:
        """Whether any runner offers a workflow."""
        return any(not seat.draining for seat in self._offers.get((app, workflow), ()))

    def find(self, app: str, workflow: str) -> Seat | None:
        """The runner that a run of a workflow would go to: the one with the most room."""
        best: Seat | None = None
        most = 0
        for seat in self._offers.get((app, workflow), ()):
            free = 0 if seat.draining else seat.capacity - len(seat.tokens)
            if free > most:
                best, most = seat, free
        if best is None:
            self._refused = True
        return best

    def take(self, boot: str, token: str) -> None:
        """A token begins at a runner."""
        seat = self.seats.get(boot)
        if seat is not None:
            seat.tokens.add(token)
            seat.since_hello.add(token)

    def free(self, boot: str, token: str) -> None:
        """A token ended at a runner."""
        seat = self.seats.get(boot)
        if seat is None:
            return
        seat.tokens.discard(token)
        seat.since_hello.discard(token)
        if self._refused and not seat.draining:
            self._refused = False
            self.freed()

    def forget(self, prefix: str) -> None:
        """Forget the tokens that begin so: a partition's owner begins anew."""
        for seat in self.seats.values():
            seat.tokens = {token for token in seat.tokens if not token.startswith(prefix)}

    def _index(self) -> None:
        self._offers = {}
        for seat in self.seats.values():
            for offer in seat.offers:
                self._offers.setdefault(offer, []).append(seat)
