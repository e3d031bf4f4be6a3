"""Put a price table in force; the project slot is the only writer (DESIGN 4)."""

from duraton_engine.commands.register_app import change_registry
from duraton_engine.context import EngineContext
from duraton_engine.effects import Reply
from duraton_engine.registrations import PRICES, decode_prices
from duraton_engine.state import tables
from duraton_schemas.default_prices import DEFAULT_PRICES
from duraton_schemas.errors import PricesError
from duraton_schemas.prices import read_prices, write_prices
from duraton_schemas.records import commands
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.partition.machine import Transition


def set_prices(tx: Transition, engine: EngineContext, command: commands.SetPrices) -> None:
    """Put a table in the place of the one in force; the same again changes nothing.

    Costs that are committed name the table's version, so another table needs another.
    """
    row = tx.state.get(tables.REGISTRY, (PROJECT_SLOT, PRICES, PRICES))
    old = DEFAULT_PRICES if row is None or row.body is None else decode_prices(row.body)
    try:
        new = read_prices(command.body)
        if new.version == old.version and new != old:
            raise PricesError(  # noqa: TRY301 - refused as what cannot be read is
                f"the table in force is {old.version!r} too and has other prices; "
                "give the new one a version of its own"
            )
    except PricesError as error:
        tx.effect(Reply(command.id, ok=False, code=error.code, message=str(error)))
        return
    if new == old:
        version = 0 if row is None else row.version
    else:
        version = change_registry(tx, PRICES, PRICES, write_prices(new))
    tx.effect(Reply(command.id, ok=True, version=version))
