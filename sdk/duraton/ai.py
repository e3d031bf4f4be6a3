"""`ctx.step.ai`: steps that call a model, and what they used."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from duraton.errors import StepUseError
from duraton.runtime.calls import Work
from duraton.runtime.tally import Metering, tally_var
from duraton.usage import Usage, usage_itself
from duraton_schemas.duration import Duration, to_ms
from duraton_schemas.errors import DurationError

if TYPE_CHECKING:
    from duraton.steps import RetryPolicy, Steps

__all__ = ["AISteps", "Usage", "meter"]

ANSWER_TIMEOUT = "10m"
"""How long a call of `infer` may be silent."""


class AISteps:
    """Steps that call a model.

    Before each attempt the run's committed spend is compared with the workflow's cap;
    where an axis is reached, the call is not made and the run fails with BudgetError.
    """

    def __init__(self, steps: "Steps") -> None:
        self._steps = steps

    async def wrap(
        self,
        id: str,
        fn: Callable[..., Any],
        *args: Any,
        usage: Callable[[Any], Any] | None = None,
        parse: Callable[[Any], Any] | None = None,
        retry: "RetryPolicy | None" = None,
        **kwargs: Any,
    ) -> Any:
        """Execute a call of a model as a step and record what it used.

        Usage and model are read from answers as OpenAI's and Anthropic's APIs give
        them, objects or mappings. An answer without usage counts 0 and is flagged.

        Args:
            id: The step's id.
            fn: The call, as in `ctx.step.run`.
            *args: Its positional arguments.
            usage: Gives the usage of an answer that carries it in another form: a
                `Usage`, or the same names in a mapping, `cost` in dollars included.
            parse: Makes the step's output of the answer, after what it used is known:
                an attempt that fails here costs what it used all the same.
            retry: The step's own policy.
            **kwargs: Its keyword arguments; a `model` among them is taken as the
                model where the answer names none.

        Returns:
            What the call gave, or what `parse` made of it, in its stored JSON form.

        Raises:
            StepUseError: The call cannot work.
        """
        for name, value in (("usage", usage), ("parse", parse)):
            if value is not None and not callable(value):
                raise StepUseError(
                    f"step {id!r}: {name} takes a function of the answer, not {value!r}; "
                    f"an argument of that name for fn goes in by a lambda"[:500]
                )
        model = kwargs.get("model")
        metering = Metering(usage, parse, model if isinstance(model, str) else None)
        return await self._steps.metered(id, Work(fn, args, kwargs, metering), retry)

    async def infer(
        self,
        id: str,
        *,
        model: str,
        messages: Sequence[Any],
        stream: bool = False,
        on_text: Callable[[str], object] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: Duration = ANSWER_TIMEOUT,  # noqa: ASYNC109 - the HTTP client's own
        retry: "RetryPolicy | None" = None,
        **options: Any,
    ) -> Any:
        """Call an OpenAI-compatible endpoint (`POST {base_url}/chat/completions`) as a step.

        429 with a Retry-After header is tried again then; other refusals (4xx) fail the
        run; 5xx and broken connections are ordinary failures, under the step's policy.

        Args:
            id: The step's id.
            model: The model.
            messages: The messages, as the endpoint takes them.
            stream: Whether the answer is asked for piece by piece; the step's output
                is then what the pieces make together, in the same form.
            on_text: Told each piece of the first choice's text as it comes, which makes
                it stream; an attempt that is repeated tells its own pieces again.
            base_url: Where the endpoint is; OPENAI_BASE_URL, or OpenAI's, where None.
            api_key: Its key; OPENAI_API_KEY where None.
            timeout: How long the endpoint may be silent.
            retry: The step's own policy.
            **options: Further fields of the request, for example `temperature`.

        Returns:
            The answer, as the endpoint's API describes it: the text is
            `answer["choices"][0]["message"]["content"]`.

        Raises:
            StepUseError: The call cannot work.
        """
        try:
            timeout_ms = to_ms(timeout)
        except DurationError as error:
            raise StepUseError(f"step {id!r}: {error}") from error
        body = {**options, "model": model, "messages": messages}

        async def call() -> Any:
            from duraton.inference import Request, infer  # noqa: PLC0415 - loads the HTTP client

            request = Request(body, stream or on_text is not None, on_text, timeout_ms / 1000)
            return await infer(request, base_url, api_key)

        work = Work(call, (), {}, Metering(model=model), awaits_network=True)
        return await self._steps.metered(id, work, retry)


def meter(used: Any) -> None:
    """Count a call of a model, from within the code of `ctx.step.ai.wrap`.

    For code that calls models several times, or may raise after a call. What is
    counted here counts whether the attempt succeeds or not, and the answer that the
    code gives back is then not read for usage.

    Args:
        used: An answer that carries its usage, a usage, or a `Usage`.

    Raises:
        LookupError: It is not called from the code of `ctx.step.ai.wrap`.
    """
    tally = tally_var.get()
    if tally is None:
        raise LookupError("meter() is for code that ctx.step.ai.wrap executes")
    tally.add(usage_itself(used))
