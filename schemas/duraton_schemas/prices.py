"""The price table: what tokens of each model cost.

A price is dollars per million tokens, which is also micro-dollars per token. Costs
are whole micro-dollars, rounded up for each call, so that no call is free and a cap
is never passed unseen.
"""

import math
import re

import msgspec

from duraton_schemas.errors import PricesError

PRICES_BYTES_MAX = 1 << 20
"""A table as JSON; it stands whole in several records."""
MODELS_MAX = 5_000
MODEL_LENGTH_MAX = 200
VERSION_LENGTH_MAX = 100
PRICE_MAX = 1_000_000.0
"""Dollars per million tokens."""
COST_MAX = 2**53 - 1
"""Micro-dollars of one call."""

_PICOS = 1_000_000
"""Millionths of a micro-dollar, in which prices are multiplied: then nothing is rounded twice."""
_DATED = re.compile(r"(.+?)-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)")


class ModelPrice(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """What a model's tokens cost, in dollars per million.

    Attributes:
        input: Tokens of the prompt.
        output: Tokens of the completion.
        cached_input: Tokens of the prompt read from a cache; as `input` where left out.
        cache_write: Tokens of the prompt written to a cache; as `input` where left out.
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None

    def cost(self, prompt: int, completion: int, cached: int = 0, cache_writes: int = 0) -> int:
        """The cost of a call in whole micro-dollars, rounded up.

        Args:
            prompt: Tokens of the prompt, cached and written ones included.
            completion: Tokens of the completion.
            cached: Those of the prompt that were read from a cache.
            cache_writes: Those of the prompt that were written to a cache.
        """
        cached = min(cached, prompt)
        cache_writes = min(cache_writes, prompt - cached)
        reading = self.input if self.cached_input is None else self.cached_input
        writing = self.input if self.cache_write is None else self.cache_write
        picos = (
            (prompt - cached - cache_writes) * round(self.input * _PICOS)
            + cached * round(reading * _PICOS)
            + cache_writes * round(writing * _PICOS)
            + completion * round(self.output * _PICOS)
        )
        return min(-(-picos // _PICOS), COST_MAX)

    def check(self, model: str) -> None:
        """Refuse prices that are none.

        Raises:
            PricesError: One is below 0 or above a million dollars.
        """
        for name in self.__struct_fields__:
            price = getattr(self, name)
            if price is not None and not (math.isfinite(price) and 0 <= price <= PRICE_MAX):
                raise PricesError(
                    f"{model}: a price is dollars per million tokens, 0 to {PRICE_MAX:.0f}, "
                    f"not {price!r}"
                )


class PriceTable(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What tokens of each model cost.

    Attributes:
        version: Names this table; it stands beside each cost that the table gave.
        models: The prices by model.
    """

    version: str
    models: dict[str, ModelPrice]

    def price(self, model: str | None) -> ModelPrice | None:
        """A model's price, or None where it is not known.

        A name that ends with a date or `latest` and is not in the table itself has
        the price of the name without it.
        """
        if model is None:
            return None
        found = self.models.get(model)
        if found is None:
            undated = _DATED.fullmatch(model)
            if undated is not None:
                found = self.models.get(undated[1])
        return found

    def check(self) -> None:
        """Refuse what cannot work.

        Raises:
            PricesError: As its message says.
        """
        if not 0 < len(self.version) <= VERSION_LENGTH_MAX:
            raise PricesError(f"version is a text of 1 to {VERSION_LENGTH_MAX} characters")
        if len(self.models) > MODELS_MAX:
            raise PricesError(f"more than {MODELS_MAX} models")
        for model, price in self.models.items():
            if not 0 < len(model) <= MODEL_LENGTH_MAX:
                raise PricesError(f"a model's name has 1 to {MODEL_LENGTH_MAX} characters")
            price.check(model)


class _Given(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A table as it stands; each model is read by itself, so that an error names it."""

    version: str
    models: dict[str, msgspec.Raw]


def read_prices(raw: bytes | str) -> PriceTable:
    """Read and check a price table from its JSON text.

    Raises:
        PricesError: It is none, or states what cannot work.
    """
    if len(raw) > PRICES_BYTES_MAX:
        raise PricesError(f"the table is {len(raw)} bytes, the limit is {PRICES_BYTES_MAX}")
    try:
        given = msgspec.json.decode(raw, type=_Given)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PricesError(f"the price table cannot be read: {error}") from error
    models = {model: _read_price(model, price) for model, price in given.models.items()}
    table = PriceTable(version=given.version, models=models)
    table.check()
    return table


def _read_price(model: str, raw: msgspec.Raw) -> ModelPrice:
    try:
        return msgspec.json.decode(raw, type=ModelPrice)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        shown = model[:MODEL_LENGTH_MAX]
        raise PricesError(f"the price table cannot be read: model {shown!r}: {error}") from error


def write_prices(table: PriceTable) -> str:
    """The JSON text of a table; equal tables give equal texts."""
    return msgspec.json.encode(table, order="deterministic").decode()
