"""`POST /events`, `GET /events`, `GET /events/{id}`."""

import re
import secrets
import time
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from duraton_api.errors import BadJsonError, BadParameterError, EventUnknownError, TooLargeError
from duraton_api.http.backend import Backend, HttpSettings
from duraton_api.http.call import Call, json_answer, read_json
from duraton_api.http.reading import fresh, page_limit, read_moment
from duraton_api.view.filters import EventFilter
from duraton_api.view.times import read_time
from duraton_schemas.errors import ValueFormError
from duraton_schemas.options import NAME_LENGTH_MAX
from duraton_schemas.records.common import Caller
from duraton_schemas.records.public import Event
from duraton_schemas.values import SAFE_INTEGER_MAX, check_depth

ID_LENGTH_MAX = 500
"""Characters of an event's id, dedupe id and subject."""

_LIST_PARAMETERS = frozenset({"name", "id", "since", "until", "limit", "cursor", "consistency"})
_ONE_PARAMETERS = frozenset({"consistency"})
_LONG_NUMBER = re.compile(rb"\d{16}")
_BLANK = b" \t\r\n"


class EventBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """An event as it is POSTed.

    Attributes:
        name: What happened.
        data: A JSON object.
        id: The sender's id; one is given where it is left out.
        ts: The sender's time, ISO-8601 or milliseconds; now where it is left out.
        dedupe_id: A repeat within 24 h leads to nothing (P18).
        subject: What it is about, as CloudEvents has it.
    """

    name: str
    data: dict[str, Any] = {}
    id: str | None = None
    ts: int | str | None = None
    dedupe_id: str | None = None
    subject: str | None = None


_one = msgspec.json.Decoder(EventBody)
_many = msgspec.json.Decoder(list[EventBody])
_encoder = msgspec.json.Encoder()


class EventsApi:
    """The calls about events.

    Args:
        backend: The node.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def post(self, call: Call) -> Response:
        """Record one event or an array of them; all or none."""
        settings = self._backend.settings
        raw = await call.body(settings.post_bytes_max)
        array = raw.lstrip(_BLANK)[:1] == b"["
        bodies = read_json(raw, _many) if array else [read_json(raw, _one)]
        if not bodies:
            raise BadJsonError("the array holds no event")
        if len(bodies) > settings.post_events_max:
            raise TooLargeError(
                f"{len(bodies)} events in one POST, the limit is {settings.post_events_max}"
            )
        check_numbers = _LONG_NUMBER.search(raw) is not None
        made = _Made(call.principal.caller, settings, secrets.token_hex(10), check_numbers)
        events = [_event(body, n, array, made) for n, body in enumerate(bodies)]
        results = await self._backend.append_events(events)
        pending = any(result.pending or not result.recorded for result in results)
        return json_answer(results if array else results[0], 202 if pending else 200)

    async def list(self, call: Call) -> Response:
        """Recorded events, newest first, and what each led to."""
        query = call.query(_LIST_PARAMETERS)
        wanted = EventFilter(
            name=query.get("name"),
            id=query.get("id"),
            since=read_moment(query, "since"),
            until=read_moment(query, "until"),
            limit=page_limit(query),
            cursor=query.get("cursor"),
        )
        await fresh(self._backend, query)
        view = self._backend.view
        return json_answer(await view.ask(view.reads.events, wanted))

    async def get(self, call: Call) -> Response:
        """One event whole, with what it led to."""
        query = call.query(_ONE_PARAMETERS)
        await fresh(self._backend, query)
        view = self._backend.view
        name = call.path("id")
        found = await view.ask(view.reads.event, name)
        if found is None:
            raise EventUnknownError(f"no event has the id {name!r}")
        return json_answer(found)


class _Made(NamedTuple):
    """What the events of one POST have in common."""

    caller: Caller
    settings: HttpSettings
    token: str
    check_numbers: bool


def _event(body: EventBody, n: int, array: bool, made: _Made) -> Event:
    where = f"$[{n}]" if array else "$"
    _check_text(f"{where}.name", body.name, NAME_LENGTH_MAX)
    if "*" in body.name:
        raise BadJsonError(f"{where}.name: {body.name!r} holds a `*`, which only triggers may")
    for field, text in (
        ("id", body.id),
        ("dedupeId", body.dedupe_id),
        ("subject", body.subject),
    ):
        if text is not None:
            _check_text(f"{where}.{field}", text, ID_LENGTH_MAX)
    data = _encoded(f"{where}.data", body.data)
    if made.check_numbers:
        _check_numbers(f"{where}.data", body.data)
    limit = made.settings.event_bytes_max
    if len(data) > limit:
        raise TooLargeError(f"{where}.data is {len(data)} bytes, the limit is {limit}")
    return Event(
        id=body.id or f"evt_{made.token}{n:03x}",
        name=body.name,
        data=data.decode(),
        ts=_moment(body.ts, f"{where}.ts"),
        dedupe_id=body.dedupe_id,
        subject=body.subject,
        caller=made.caller,
    )


def _encoded(where: str, value: dict[str, Any]) -> bytes:
    try:
        data = _encoder.encode(value)
        check_depth(value, data)
    except RecursionError as error:
        raise BadJsonError(f"{where}: the value is nested too deeply") from error
    except ValueFormError as error:
        raise BadJsonError(f"{where}: {error}") from error
    return data


def _moment(ts: int | str | None, where: str) -> int:
    if ts is None:
        return time.time_ns() // 1_000_000
    try:
        return read_time(ts, where)
    except BadParameterError as error:
        raise BadJsonError(str(error)) from error


def _check_text(where: str, text: str, limit: int) -> None:
    if not text or len(text) > limit:
        raise BadJsonError(f"{where}: the text must have 1 to {limit} characters")
    if not text.isprintable():
        raise BadJsonError(f"{where}: the text holds characters that cannot be shown")


def _check_numbers(where: str, value: object) -> None:
    """Refuse whole numbers that other languages would round (P43)."""
    if isinstance(value, dict):
        for name, item in value.items():
            _check_numbers(f"{where}.{name}", item)
    elif isinstance(value, list):
        for n, item in enumerate(value):
            _check_numbers(f"{where}[{n}]", item)
    elif isinstance(value, int) and abs(value) > SAFE_INTEGER_MAX:
        raise ValueFormError(f"{where}: the whole number {value} is beyond 2^53; send it as text")
