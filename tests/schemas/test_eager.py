"""Writing at once: a coroutine is run to where it waits, and what is left can be awaited."""

import asyncio

import pytest

from duraton_schemas.wire.eager import begin


async def test_what_does_not_wait_is_done_at_once():
    done = []

    async def write():
        done.append("written")

    assert begin(write()) is None
    assert done == ["written"]


async def test_what_has_to_wait_goes_on_where_it_was():
    done, room = [], asyncio.Event()

    async def write():
        done.append("begun")
        await room.wait()
        await asyncio.sleep(0)
        done.append("written")

    rest = begin(write())
    assert done == ["begun"]
    waiting = asyncio.ensure_future(_await(rest))
    await asyncio.sleep(0)
    assert not waiting.done()
    room.set()
    await waiting
    assert done == ["begun", "written"]


async def test_what_it_raises_comes_to_whoever_awaits_the_rest():
    async def at_once():
        raise ConnectionError("closed")

    async def later():
        await asyncio.sleep(0)
        raise ConnectionError("closed later")

    with pytest.raises(ConnectionError, match="closed"):
        await begin(at_once())
    with pytest.raises(ConnectionError, match="closed later"):
        await begin(later())


async def test_cancelling_who_awaits_the_rest_cancels_what_is_left():
    ended = []

    async def write():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned")

    waiting = asyncio.ensure_future(_await(begin(write())))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == ["cleaned"]


async def _await(rest):
    await rest
