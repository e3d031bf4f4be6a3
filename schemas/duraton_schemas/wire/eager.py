"""Writing to a socket at once, where it would not have to wait.

A task of its own for each write costs a pass of the event loop before anything goes out,
and whatever else is ready in that pass stands before it.
"""

from collections.abc import Coroutine, Generator
from typing import Any


class Rest:
    """What is left of a coroutine that had to wait or failed; awaiting it goes on, or raises.

    Args:
        coroutine: Begun.
        waited: What it waits for.
        failure: What it raised instead.
    """

    def __init__(
        self, coroutine: Coroutine[Any, Any, None], waited: Any, failure: Exception | None = None
    ) -> None:
        self._coroutine = coroutine
        self._waited = waited
        self._failure = failure

    def __await__(self) -> Generator[Any, Any, None]:
        if self._failure is not None:
            raise self._failure
        waited = self._waited
        while True:
            thrown: BaseException | None = None
            value = None
            try:
                value = yield waited
            except BaseException as error:  # noqa: BLE001 - whatever came belongs to the coroutine
                thrown = error
            try:
                if thrown is None:
                    waited = self._coroutine.send(value)
                else:
                    waited = self._coroutine.throw(thrown)
            except StopIteration:
                return


def begin(coroutine: Coroutine[Any, Any, None]) -> Rest | None:
    """Run a coroutine up to where it waits first.

    It must not ask which task it runs in until then. Nothing is raised here: whoever
    looks after the socket learns of a failure by awaiting what is left.

    Returns:
        None where it ended without waiting, otherwise what is left to be awaited.
    """
    try:
        waited = coroutine.send(None)
    except StopIteration:
        return None
    except Exception as error:  # noqa: BLE001 - whatever it is, who awaits the rest is told
        return Rest(coroutine, None, error)
    return Rest(coroutine, waited)
