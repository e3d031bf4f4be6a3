"""Which runner processes there are, connected or waited for, and who has which name."""

import logging
from collections.abc import Callable, Iterable, Sequence

from duraton_api.runners.clock import Clock
from duraton_api.runners.errors import HelloRefusedError
from duraton_api.runners.links import Link, Runner
from duraton_api.runners.settings import HubSettings
from duraton_engine.calls import Call, RunnerLost
from duraton_engine.room import Room
from duraton_schemas.wire import closing
from duraton_schemas.wire.frames import Hello

_log = logging.getLogger("duraton.runners")

Offer = Callable[[int | None, Call], None]
"""Gives a call to a partition of this node, or to every one (None)."""


class Roster:
    """The runner processes, their names, and their seats in the room.

    Args:
        room: The node's room.
        offer: Gives a call to a partition, or to all.
        clock: Time and timers.
        settings: Bounds and deadlines.
    """

    def __init__(self, room: Room, offer: Offer, clock: Clock, settings: HubSettings) -> None:
        self._room = room
        self._offer = offer
        self._clock = clock
        self._settings = settings
        self._by_boot: dict[str, Runner] = {}
        self._names: dict[str, str] = {}

    @property
    def runners(self) -> Sequence[Runner]:
        """All of them."""
        return tuple(self._by_boot.values())

    def get(self, boot: str) -> Runner | None:
        """The runner process with a boot id."""
        return self._by_boot.get(boot)

    def check(self, hello: Hello) -> None:
        """Refuse who says hello while another live process has the name, or no place is left.

        Raises:
            HelloRefusedError: As its message says.
        """
        other = self._namesake(hello)
        if other is not None and other.link is not None:
            quiet_ms = self._clock.now_ms() - other.link.heard_ms
            if not self._settings.ping_ms or quiet_ms <= 2 * self._settings.ping_ms:
                raise HelloRefusedError(
                    closing.CLOSE_NAME_TAKEN,
                    "runner-name-taken",
                    f"another process is connected as {hello.name!r}",
                )
        if hello.boot not in self._by_boot and len(self._by_boot) >= self._settings.runners_max:
            raise HelloRefusedError(
                closing.CLOSE_LATER, "runners-full", f"{len(self._by_boot)} runners are connected"
            )

    def admit(
        self, hello: Hello, offers: frozenset[tuple[str, str]], link: Link
    ) -> tuple[Runner, Sequence[Link]]:
        """Take a runner in; it gets its seat by `seat`.

        Args:
            hello: What it said, after `check`.
            offers: The (app, workflow) pairs that it executes.
            link: Its connection.

        Returns:
            The runner, and the connections that it replaces.
        """
        replaced = []
        other = self._namesake(hello)
        if other is not None:
            if other.link is not None:
                replaced.append(other.link)
            self.lost(other, f"a new process was started as {hello.name!r}")
        capacity = min(hello.capacity, self._settings.capacity_max)
        runner = Runner(hello.boot, hello.name, hello.explicit, capacity, offers, link)
        old = self._by_boot.get(hello.boot)
        if old is not None:
            old.stop_waiting()
            runner.draining = old.draining
            seat = self._room.seats.get(hello.boot)
            if seat is not None:
                runner.ended = frozenset(seat.tokens - {live.token for live in hello.tokens})
            if old.link is not None:
                replaced.append(old.link)
            self._forget_name(old)
        self._by_boot[hello.boot] = runner
        if hello.explicit:
            self._names[hello.name] = hello.boot
        return runner, replaced

    def seat(self, runner: Runner, live: Iterable[str] = ()) -> None:
        """Give a runner its seat, as it stands now.

        Args:
            runner: The runner.
            live: Tokens that it has just said it executes: they take their places at
                once, before each partition has settled its own.
        """
        seat = runner.seat()
        seat.tokens.update(live)
        self._room.join(seat)

    def drain(self, runner: Runner) -> None:
        """A runner takes nothing new."""
        runner.draining = True
        self._room.drain(runner.boot)

    def slow(self, runner: Runner) -> None:
        """A runner does not take what it is sent: no new runs for now."""
        runner.slow = True
        seat = self._room.seats.get(runner.boot)
        if seat is not None:
            seat.capacity = 0

    def quick(self, runner: Runner) -> None:
        """A slow runner has caught up."""
        runner.slow = False
        self.seat(runner)

    def disconnected(self, runner: Runner, *, clean: bool) -> None:
        """A runner's connection ended: keep its seat out of new work and wait for it.

        Args:
            runner: Which one.
            clean: Whether it closed because it meant to; if it had drained before, it
                is not waited for.
        """
        if self._by_boot.get(runner.boot) is not runner:
            return
        runner.link = None
        self._room.drain(runner.boot)
        if clean and runner.draining:
            self.lost(runner, "the runner drained and left", counts=False)
            return
        reason = f"the runner {runner.name!r} was gone for {self._settings.silence_ms} ms"
        runner.stop_waiting = self._clock.call_later_ms(
            self._settings.silence_ms, lambda: self.lost(runner, reason)
        )

    def lost(self, runner: Runner, reason: str, *, counts: bool = True) -> None:
        """A runner is gone for good: its seat, its name and its tokens end."""
        if self._by_boot.get(runner.boot) is not runner:
            return
        runner.stop_waiting()
        del self._by_boot[runner.boot]
        self._forget_name(runner)
        self._room.leave(runner.boot)
        _log.info("runner %s (%s) is gone: %s", runner.name, runner.boot, reason)
        self._offer(None, RunnerLost(boot=runner.boot, reason=reason, counts=counts))

    def clear(self) -> None:
        """Forget all of them and tell nobody: the engine stops."""
        for runner in self._by_boot.values():
            runner.stop_waiting()
        self._by_boot.clear()
        self._names.clear()

    def _namesake(self, hello: Hello) -> Runner | None:
        """Another process that has the explicit name that a hello states."""
        boot = self._names.get(hello.name) if hello.explicit else None
        return self._by_boot.get(boot) if boot is not None and boot != hello.boot else None

    def _forget_name(self, runner: Runner) -> None:
        if self._names.get(runner.name) == runner.boot:
            del self._names[runner.name]
