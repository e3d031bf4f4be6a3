"""The cap on a run's AI spend: looked at before each attempt of an AI step (P29)."""

from duraton.errors import BudgetError
from duraton_schemas.cap import MICROS
from duraton_schemas.wire.frames import FrameCap, FrameSpend


def halted(cap: FrameCap | None, spend: FrameSpend) -> BudgetError | None:
    """The error of a call that is not made, or None where the run may go on.

    Args:
        cap: What the run may spend, or None.
        spend: What it has spent, as committed.
    """
    if cap is None:
        return None
    reached: list[str] = []
    if cap.max_tokens is not None and spend.tokens >= cap.max_tokens:
        reached.append(f"maxTokens is {cap.max_tokens} and the run has used {spend.tokens}")
    if cap.max_cost is not None and spend.cost >= cap.max_cost:
        limit, spent = dollars(cap.max_cost), dollars(spend.cost)
        reached.append(f"maxCost is {limit} and the run has spent {spent}")
    if not reached:
        return None
    return BudgetError(f"the cap is reached, so the model was not called: {'; '.join(reached)}")


def dollars(micros: int) -> str:
    """Micro-dollars for people: at least cents, and no more places than are needed."""
    whole, rest = divmod(micros, MICROS)
    places = f"{rest:06}".rstrip("0").ljust(2, "0")
    return f"${whole}.{places}"
