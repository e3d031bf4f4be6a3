"""Sending events from programs that are no workflows."""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import httpx

from duraton.environment import auth_headers, engine_url
from duraton.errors import SendError
from duraton.registration import problem_of
from duraton_schemas import values

TIMEOUT_S = 15.0
"""The engine answers within 5 s, with what is pending if need be (P46)."""
EVENTS_MAX = 1_000
"""Events that one call of `send_many` takes; send more in several calls."""


class Client:
    """Sends events to an engine.

    ```python
    async with Client() as duraton:
        await duraton.send("order.created", {"orderId": 7}, dedupe_id="order-7")
    ```

    Args:
        url: The engine's address; left out, DURATON_URL or http://127.0.0.1:8420.
        api_key: Left out, DURATON_API_KEY.
        transport: What carries requests, for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=engine_url(url),
            headers={"content-type": "application/json", **auth_headers(api_key)},
            timeout=TIMEOUT_S,
            transport=transport,
        )

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(
        self,
        name: str,
        data: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
        ts: int | None = None,
        dedupe_id: str | None = None,
        subject: str | None = None,
    ) -> Any:
        """Send one event.

        Args:
            name: Its name.
            data: Its data, a JSON object.
            id: Its id; left out, the engine makes one.
            ts: When it happened, milliseconds since 1970 UTC; left out, now.
            dedupe_id: A repeat of it within 24 h is dropped, so sending again is safe.
            subject: What it is about.

        Returns:
            What `POST /events` answers, as JSON values.

        Raises:
            SendError: The engine did not take it.
            ValueFormError: The data has no JSON form.
            ValueSizeError: The data is above 1 MiB.
        """
        return await self._post(
            _event(name, data, id=id, ts=ts, dedupe_id=dedupe_id, subject=subject)
        )

    async def send_many(
        self, events: Iterable[tuple[str, Mapping[str, Any]] | Mapping[str, Any]]
    ) -> Any:
        """Send events in one POST; all are recorded or none.

        Args:
            events: (name, data) pairs, or mappings with the fields of `send`.

        Returns:
            What `POST /events` answers, one entry an event in order.

        Raises:
            SendError: The engine did not take them.
        """
        wire = [
            _event(**each) if isinstance(each, Mapping) else _event(each[0], each[1])
            for each in events
        ]
        if len(wire) > EVENTS_MAX:
            raise SendError(f"{len(wire)} events; one call takes {EVENTS_MAX}")
        return await self._post("[" + ",".join(wire) + "]")

    async def _post(self, body: str) -> Any:
        try:
            response = await self._http.post("/events", content=body)
        except httpx.HTTPError as error:
            said = str(error) or type(error).__name__
            raise SendError(f"{self._http.base_url} was not reached: {said}") from error
        if not response.is_success:
            code, message = problem_of(response)
            raise SendError(message, response.status_code, code)
        return response.json()


def _event(
    name: str,
    data: Mapping[str, Any] | None = None,
    *,
    id: str | None = None,
    ts: int | None = None,
    dedupe_id: str | None = None,
    subject: str | None = None,
) -> str:
    fields = {
        "id": id, "name": name, "data": data or {}, "ts": ts, "dedupeId": dedupe_id,
        "subject": subject,
    }  # fmt: skip
    known = {key: value for key, value in fields.items() if value is not None}
    return values.dump(known, limit=values.EVENT_BYTES_MAX + 4_096)
