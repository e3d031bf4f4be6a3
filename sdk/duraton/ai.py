"""`ctx.step.ai`: steps that call a model, and what they used."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from duraton.errors import NotAvailableError
from duraton.runtime.calls import Work
from duraton_schemas.wire.frames import FrameSpend

if TYPE_CHECKING:
    from duraton.steps import RetryPolicy, Steps

_ANTHROPIC = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
TOKENS_MAX = 2**53 - 1
"""Larger counts are no counts, and could not be written."""
_OPENAI = ("prompt_tokens", "completion_tokens")


class AISteps:
    """Steps that call a model."""

    def __init__(self, steps: "Steps") -> None:
        self._steps = steps

    async def wrap(
        self,
        id: str,
        fn: Callable[..., Any],
        *args: Any,
        usage: Callable[[Any], Any] | None = None,
        retry: "RetryPolicy | None" = None,
        **kwargs: Any,
    ) -> Any:
        """Execute a call of a model as a step and record the tokens it used.

        Args:
            id: The step's id.
            fn: The call, as in `ctx.step.run`.
            *args: Its positional arguments.
            usage: Gives the usage of an answer that does not carry it as OpenAI's and
                Anthropic's do: an object or mapping with their fields.
            retry: The step's own policy.
            **kwargs: Its keyword arguments.

        Returns:
            What the call gave, in its stored JSON form.
        """
        work = Work(fn, args, kwargs)
        return await self._steps.metered(id, work, retry, lambda answer: spend_of(answer, usage))

    async def infer(self, id: str, *_args: Any, **_options: Any) -> Any:
        """Call an OpenAI-compatible endpoint. Not in this version.

        Raises:
            NotAvailableError: Always.
        """
        raise NotAvailableError(
            f"step {id!r}: ctx.step.ai.infer is not available yet; "
            "call your client inside ctx.step.ai.wrap"
        )


def spend_of(answer: Any, usage: Callable[[Any], Any] | None = None) -> FrameSpend:
    """The tokens that an answer says it used; its cost is not known here.

    Cached tokens count once. An answer without usage counts 0 and is flagged.
    """
    found = usage(answer) if usage is not None else _get(answer, "usage")
    if found is None:
        return FrameSpend(unknown=True)
    names = _ANTHROPIC if _get(found, "input_tokens") is not None else _OPENAI
    counts = [_get(found, name) for name in names]
    tokens = sum(n for n in counts if isinstance(n, int) and not isinstance(n, bool) and n > 0)
    if not tokens:
        total = _get(found, "total_tokens")
        tokens = total if isinstance(total, int) and total > 0 else 0
    return FrameSpend(tokens=min(tokens, TOKENS_MAX), unknown=True)


def _get(holder: Any, name: str) -> Any:
    if isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)
