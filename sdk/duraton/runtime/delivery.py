"""Giving a handler its results in order, and seeing when it can only wait (DESIGN 8)."""

from duraton.runtime.calls import State
from duraton.runtime.live import Live
from duraton_schemas.wire.frames import Step, Suspend


class Delivery:
    """Gives one handler its results, and suspends it where all that pends is the engine's.

    Results are given strictly in the order of their numbers, one at a time, the next
    once the loop has settled. Where only one future pends and only the handler's own
    task calls steps, nothing else can be under way and nothing is waited for.

    Args:
        live: The invocation.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        self._quiet_at: int | None = None
        self._watched = 0
        self._queued = False

    def stirred(self) -> None:
        """The invocation did something: it has to settle anew."""
        live = self._live
        # While nothing runs in parallel, passes are counted only once somebody asks.
        self._quiet_at = live.host.turns.mark() if live.parallel else None

    def soon(self) -> None:
        """Look in the loop's next pass whether something is due."""
        if not self._queued:
            self._queued = True
            self._live.host.loop.call_soon(self.pump)

    def pump(self) -> None:
        """Give the handler the next result, if it has come and it is its turn."""
        self._queued = False
        live = self._live
        order = live.order
        while not live.ended and not live.pausing:
            result = order.next()
            if result is None:
                break
            key, output = result
            call = live.calls.get(key)
            if call is None or not order.complete:
                # Steps that had been called by now when this was recorded are not yet.
                if not live.awaits_steps() or not self._quiet():
                    return
                if call is None:
                    names = ", ".join(repr(step) for step, _ in list(live.open)[:5])
                    live.diverged(key, f"the code waits for {names} instead")
                    return
            elif (live.parallel or len(live.open) != 1) and not self._quiet():
                return
            order.given()
            live.open.pop(key, None)
            call.given(output)
            self.stirred()
        self._consider_rest()

    def _quiet(self) -> bool:
        """Whether the loop has settled; if not, `pump` is called when it has."""
        turns = self._live.host.turns
        if self._quiet_at is None:
            self._quiet_at = turns.mark()
        if turns.now >= self._quiet_at:
            return True
        if self._watched != self._quiet_at:
            self._watched = self._quiet_at
            turns.call_at(self._quiet_at, self.pump)
        return False

    def _consider_rest(self) -> None:
        """Suspend if all that pends is the engine's to wake; serve: answer."""
        live = self._live
        if live.ended or live.suspend is not None or live.executing:
            return
        if live.unacked and not live.serving:
            return
        if live.pausing:
            self._suspend()
            return
        if live.order.waiting:
            if live.order.next() is None and not live.serving:
                # Results come in order, so one before those that are held was lost with
                # a connection. The next invocation brings them all.
                self._suspend()
            return
        if not live.open or not live.awaits_steps():
            return
        for call in live.open.values():
            if call.state is not State.PENDING and call.key not in live.unacked:
                return
        woken = all(_engine_wakes(frame) for frame in live.unacked.values())
        alone = not live.parallel and len(live.open) == 1 and live.order.complete
        if (woken or not alone) and not self._quiet():
            return
        if woken:
            self._suspend()
        live.rest()

    def _suspend(self) -> None:
        live = self._live
        # A pause may have kept steps from beginning, or the handler from going on: then
        # nothing will wake the run, and the engine is told that there is more to do.
        held = live.pausing and not (
            live.open
            and not live.order.waiting
            and all(call.state is State.PENDING for call in live.open.values())
        )
        live.suspend = Suspend(run=live.run, token=live.token, seen=live.order.seen, held=held)
        live.host.emit(live.suspend)


def _engine_wakes(frame: Step) -> bool:
    """Whether the engine will wake the run for a step that was told so."""
    return frame.error is not None or frame.kind in ("sleep", "wait", "invoke")
