"""What AI steps used, as it is committed: tokens as reported, cost by the price table.

`spend_of` is the one place where a fact's spend is made (P29), so whoever counts
spend elsewhere is told there.
"""

from duraton_engine.context import EngineContext
from duraton_engine.effects import Metered
from duraton_engine.state.flow import Late
from duraton_engine.state.objects import RunState
from duraton_schemas.prices import PriceTable
from duraton_schemas.records.common import SPEND_MAX, StepSpend
from duraton_schemas.wire.frames import FrameUsage
from duraton_streams.partition.machine import Transition

MODELS_LENGTH_MAX = 500


def spend_of(
    tx: Transition, engine: EngineContext, run: RunState | Late | None, usage: list[FrameUsage]
) -> StepSpend | None:
    """What an attempt of a step used, to be written into its fact.

    Args:
        tx: The transition.
        engine: The engine's context.
        run: The step's run, or None where it has ended.
        usage: As the runner reported it; empty where nothing was metered.
    """
    if not usage:
        return None
    prices = engine.registrations.prices
    total = StepSpend()
    for each in usage:
        spend = _priced(prices, each)
        _add(total, spend)
        app, workflow = (run.app, run.workflow) if run is not None else ("", "")
        tx.effect(Metered(app, workflow, spend, prices.version))
    return total


def _priced(prices: PriceTable, usage: FrameUsage) -> StepSpend:
    """One entry with its cost; what is not known counts 0 and is flagged."""
    spend = StepSpend(
        tokens=usage.tokens,
        unknown=usage.unknown,
        model=usage.model,
        prompt=usage.prompt,
        completion=usage.completion,
        cached=usage.cached,
        cache_writes=usage.cache_writes,
    )
    if usage.cost is not None:
        spend.cost = usage.cost
        return spend
    price = prices.price(usage.model)
    # Where only the sum is known, nobody knows how much of it was output.
    parted = usage.prompt + usage.completion == usage.tokens
    if price is not None and parted:
        spend.cost = price.cost(usage.prompt, usage.completion, usage.cached, usage.cache_writes)
        spend.prices = prices.version
    spend.cost_unknown = usage.unknown or (spend.prices is None and usage.tokens > 0)
    return spend


def _add(total: StepSpend, spend: StepSpend) -> None:
    for name in ("tokens", "cost", "prompt", "completion", "cached", "cache_writes"):
        setattr(total, name, min(getattr(total, name) + getattr(spend, name), SPEND_MAX))
    total.unknown = total.unknown or spend.unknown
    total.cost_unknown = total.cost_unknown or spend.cost_unknown
    total.prices = total.prices or spend.prices
    if spend.model is not None and total.model is None:
        total.model = spend.model
    elif spend.model is not None and spend.model != total.model:
        total.model = f"{total.model}, {spend.model}"[:MODELS_LENGTH_MAX]
