"""`cap`: the most that one run may spend on AI (flow-control seed, P29)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from duraton_schemas.errors import OptionsError

TOKENS_MAX = 2**53 - 1
"""Larger counts are no counts: JSON could not tell them apart."""
DOLLARS_MAX = 1_000_000_000
MICROS = 1_000_000
"""Micro-dollars in a dollar."""

_AXES = ("maxCost", "maxTokens")


class Cap(msgspec.Struct, frozen=True):
    """A cap; at least one axis is set.

    Attributes:
        max_tokens: Tokens as billed, or None.
        max_cost: Micro-dollars, or None.
    """

    max_tokens: int | None = None
    max_cost: int | None = None


def read_cap(workflow: str, fields: Mapping[str, Any]) -> Cap:
    """A cap from its wire form, `{"maxCost": dollars, "maxTokens": tokens}`.

    Args:
        workflow: Its workflow, for the message.
        fields: The wire form.

    Raises:
        OptionsError: No axis is set, one is not above 0, or there is another field.
    """
    where = f"{workflow}.cap"
    for name in fields:
        if name not in _AXES:
            raise OptionsError(f"{where}: a cap has maxCost, maxTokens or both, no {name!r}")
    tokens, dollars = fields.get("maxTokens"), fields.get("maxCost")
    if tokens is None and dollars is None:
        raise OptionsError(f"{where}: set maxCost (dollars), maxTokens or both")
    return Cap(
        None if tokens is None else _tokens(where, tokens),
        None if dollars is None else _micros(where, dollars),
    )


def _tokens(where: str, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= TOKENS_MAX:
        raise OptionsError(f"{where}: maxTokens must be a whole number above 0, not {value!r}")
    return value


def _micros(where: str, value: Any) -> int:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= DOLLARS_MAX:
        raise OptionsError(f"{where}: maxCost must be dollars above 0, not {value!r}")
    micros: int = round(value * MICROS)
    if micros < 1:
        raise OptionsError(f"{where}: maxCost must be at least 0.000001 dollars, not {value!r}")
    return micros
