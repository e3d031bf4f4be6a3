"""Saying which models have no price: once each, not at every step."""

import logging

from duraton_engine.effects import Metered

_log = logging.getLogger("duraton.prices")

MODELS_MAX = 1_000
"""Models that are remembered as told of; more are somebody's accident."""


class Unpriced:
    """The models without a price that a node has met."""

    def __init__(self) -> None:
        self._told: set[tuple[str | None, str]] = set()

    def note(self, effect: Metered) -> None:
        """Tell of a model whose cost is not known, unless that was told already."""
        spend = effect.spend
        if not spend.cost_unknown or spend.unknown:
            return
        key = (spend.model, effect.prices)
        if key in self._told or len(self._told) >= MODELS_MAX:
            return
        self._told.add(key)
        if spend.model is None:
            _log.warning(
                "answers of %s/%s name no model: their tokens count, their cost is unknown; "
                "state the model by `usage=`",
                effect.app,
                effect.workflow,
            )
        elif spend.prompt + spend.completion != spend.tokens:
            _log.warning(
                "answers of the model %r do not tell prompt and completion apart: their tokens "
                "count, their cost is unknown; state it by `usage=`",
                spend.model,
            )
        else:
            _log.warning(
                "the price table %r has no price for the model %r: its tokens count, its cost "
                "is unknown; add it with `duraton prices put FILE`",
                effect.prices,
                spend.model,
            )
