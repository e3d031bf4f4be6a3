"""The price table that holds until somebody puts another one in its place.

List prices of the makers' own APIs, in dollars per million tokens, without batches,
long-context surcharges or discounts. Models that are not here have no known cost.
A change of the table is a new version text.
"""

from duraton_schemas.prices import ModelPrice, PriceTable


def _openai(input: float, cached: float, output: float) -> ModelPrice:
    return ModelPrice(input=input, output=output, cached_input=cached)


def _anthropic(input: float, written: float, cached: float, output: float) -> ModelPrice:
    # Written for five minutes; an hour is dearer, and answers' totals do not tell them apart.
    return ModelPrice(input=input, output=output, cached_input=cached, cache_write=written)


_OPUS = _anthropic(5.0, 6.25, 0.5, 25.0)
_OPUS_4 = _anthropic(15.0, 18.75, 1.5, 75.0)
_SONNET = _anthropic(3.0, 3.75, 0.3, 15.0)

DEFAULT_PRICES = PriceTable(
    version="default-1",
    models={
        "gpt-5": _openai(1.25, 0.125, 10.0),
        "gpt-5-mini": _openai(0.25, 0.025, 2.0),
        "gpt-5-nano": _openai(0.05, 0.005, 0.4),
        "gpt-5.1": _openai(1.25, 0.125, 10.0),
        "gpt-5.4": _openai(2.5, 0.25, 15.0),
        "gpt-5.4-mini": _openai(0.75, 0.075, 4.5),
        "gpt-5.4-nano": _openai(0.2, 0.02, 1.25),
        "gpt-4.1": _openai(2.0, 0.5, 8.0),
        "gpt-4.1-mini": _openai(0.4, 0.1, 1.6),
        "gpt-4.1-nano": _openai(0.1, 0.025, 0.4),
        "gpt-4o": _openai(2.5, 1.25, 10.0),
        "gpt-4o-mini": _openai(0.15, 0.075, 0.6),
        "o3": _openai(2.0, 0.5, 8.0),
        "o3-mini": _openai(1.1, 0.55, 4.4),
        "o4-mini": _openai(1.1, 0.275, 4.4),
        "text-embedding-3-small": _openai(0.02, 0.02, 0.0),
        "text-embedding-3-large": _openai(0.13, 0.13, 0.0),
        "claude-opus-4-8": _OPUS,
        "claude-opus-4-7": _OPUS,
        "claude-opus-4-6": _OPUS,
        "claude-opus-4-5": _OPUS,
        "claude-opus-4-1": _OPUS_4,
        "claude-opus-4": _OPUS_4,
        "claude-sonnet-4-6": _SONNET,
        "claude-sonnet-4-5": _SONNET,
        "claude-sonnet-4": _SONNET,
        "claude-3-7-sonnet": _SONNET,
        "claude-3-5-sonnet": _SONNET,
        "claude-haiku-4-5": _anthropic(1.0, 1.25, 0.1, 5.0),
        "claude-3-5-haiku": _anthropic(0.8, 1.0, 0.08, 4.0),
        "claude-3-haiku": _anthropic(0.25, 0.3, 0.03, 1.25),
    },
)
