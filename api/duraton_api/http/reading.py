"""What the reads share: reading one's own writes, pages, moments."""

from collections.abc import Mapping

from duraton_api.errors import BadParameterError
from duraton_api.http.backend import Backend
from duraton_api.view.filters import PAGE_DEFAULT, PAGE_MAX
from duraton_api.view.times import read_time


async def fresh(backend: Backend, query: Mapping[str, str]) -> None:
    """Wait until the view has everything that is committed now.

    `consistency=eventual` asks for what the view has, without waiting.

    Raises:
        BadParameterError: Another word is asked for.
        ViewBehindError: The view does not get there in time.
    """
    wanted = query.get("consistency", "own-writes")
    if wanted == "eventual":
        return
    if wanted != "own-writes":
        raise BadParameterError("consistency: it is `own-writes` or `eventual`")
    await backend.view.reached(backend.journal_ends())


def page_limit(query: Mapping[str, str], default: int = PAGE_DEFAULT, most: int = PAGE_MAX) -> int:
    """How many rows a page has.

    Raises:
        BadParameterError: It is no whole number in the bounds.
    """
    return whole_number(query, "limit", default, 1, most)


def whole_number(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """A whole number of the query.

    Raises:
        BadParameterError: It is none, or out of bounds.
    """
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        raise BadParameterError(f"{name}: {text!r} is no whole number")
    number = int(text)
    if not least <= number <= most:
        raise BadParameterError(f"{name}: it must be from {least} to {most}")
    return number


def read_moment(query: Mapping[str, str], name: str) -> int | None:
    """A moment of the query in milliseconds, or None.

    Raises:
        BadParameterError: It cannot be read.
    """
    text = query.get(name)
    return None if text is None else read_time(text, name)
