"""Writing to a socket at once, where it would not have to wait.

A task of its own for each write costs a pass of the event loop before anything goes out,
and whatever else is ready in that pass stands before it.
"""

from collections.abc import Coroutine, Generator
from typing import Any


class Rest:
    """What is left of a coroutine that had to wait; awaiting it goes on.

    Args:
        coroutine: Begun, and waiting.
        waited: What it waits for.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, None], waited: Any) -> None:
        self._coroutine = coroutine
        self._waited = waited

    def __await__(self) -> Generator[Any, Any, None]:
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

    It must not ask which task it runs in until then.

    Returns:
        None where it ended without waiting, otherwise what is left to be awaited.

    Raises:
        Exception: What it raised before it waited.
    """
    try:
        waited = coroutine.send(None)
    except StopIteration:
        return None
    return Rest(coroutine, waited)
