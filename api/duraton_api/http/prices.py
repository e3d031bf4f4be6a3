"""The price table: `GET /prices`, `PUT /prices`."""

import msgspec
from starlette.responses import Response

from duraton_api.errors import PendingError, RefusedError
from duraton_api.http.backend import Backend
from duraton_api.http.call import Call, command_id, json_answer
from duraton_api.http.reading import fresh
from duraton_engine.registrations import PRICES
from duraton_schemas.default_prices import DEFAULT_PRICES
from duraton_schemas.prices import PRICES_BYTES_MAX, read_prices, write_prices
from duraton_schemas.records.commands import SetPrices

_PARAMETERS = frozenset({"consistency"})
_NONE: frozenset[str] = frozenset()


class PricesSet(msgspec.Struct, rename="camel", kw_only=True):
    """The table that is in force.

    Attributes:
        version: The table's own version.
        registry: The registry's version that it made; 0 for the built-in table.
        pending: Whether it is recorded and not known to be in force yet.
    """

    version: str
    registry: int = 0
    pending: bool = False


class PricesApi:
    """The calls about the price table.

    Args:
        backend: The node.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def get(self, call: Call) -> Response:
        """The table in force, in the form in which it may be put back."""
        await fresh(self._backend, call.query(_PARAMETERS))
        view = self._backend.view
        body = await view.ask(view.reads.registry, PRICES, PRICES)
        if body is None:
            body = write_prices(DEFAULT_PRICES)
        return json_answer(msgspec.Raw(body.encode()))

    async def put(self, call: Call) -> Response:
        """Put a table in the place of the one in force, whole or not at all."""
        call.query(_NONE)
        table = read_prices(await call.body(PRICES_BYTES_MAX))
        command = SetPrices(
            id=command_id(),
            caller=call.principal.caller,
            body=write_prices(table),
        )
        try:
            reply = await self._backend.command(command)
        except PendingError:
            pending = PricesSet(version=table.version, pending=True)
            return json_answer(pending, PendingError.status)
        if not reply.ok:
            raise RefusedError(reply.message or "the price table was refused", reply.code)
        return json_answer(PricesSet(version=table.version, registry=reply.version))
