"""What runs and steps have spent on AI, folded and as it is shown."""

from duraton_api.view.shapes import SpendShape, StepSpendShape
from duraton_api.view.states import RunState, Spent, StepState
from duraton_schemas.cap import MICROS
from duraton_schemas.records.common import SPEND_MAX, StepSpend


def spent(state: RunState, step: StepState | None, spend: StepSpend | None) -> None:
    """Add what an attempt used to its run, and to its step where it is known."""
    if spend is None:
        return
    state.tokens = min(state.tokens + spend.tokens, SPEND_MAX)
    state.cost = min(state.cost + spend.cost, SPEND_MAX)
    state.cost_unknown = state.cost_unknown or spend.cost_unknown
    state.usage_unknown = state.usage_unknown or spend.unknown
    if step is not None:
        step.spend = _with(step.spend or Spent(), spend)


def _with(old: Spent, new: StepSpend) -> Spent:
    return Spent(
        tokens=min(old.tokens + new.tokens, SPEND_MAX),
        cost=min(old.cost + new.cost, SPEND_MAX),
        unknown=old.unknown or new.unknown,
        cost_unknown=old.cost_unknown or new.cost_unknown,
        model=new.model or old.model,
        prompt=min(old.prompt + new.prompt, SPEND_MAX),
        completion=min(old.completion + new.completion, SPEND_MAX),
        cached=min(old.cached + new.cached, SPEND_MAX),
        cache_writes=min(old.cache_writes + new.cache_writes, SPEND_MAX),
        prices=new.prices or old.prices,
    )


def spend_shape(state: RunState) -> SpendShape:
    """What a run has spent."""
    return SpendShape(
        tokens=state.tokens,
        cost=None if state.cost_unknown else state.cost / MICROS,
        known_cost=state.cost / MICROS,
        usage_unknown=state.usage_unknown,
    )


def step_spend_shape(spend: Spent | None) -> StepSpendShape | None:
    """What a step has spent, or None where it called no model."""
    if spend is None:
        return None
    return StepSpendShape(
        tokens=spend.tokens,
        cost=None if spend.cost_unknown else spend.cost / MICROS,
        known_cost=spend.cost / MICROS,
        usage_unknown=spend.unknown,
        model=spend.model,
        prompt=spend.prompt,
        completion=spend.completion,
        cached=spend.cached,
        cache_writes=spend.cache_writes,
        prices=spend.prices,
    )
