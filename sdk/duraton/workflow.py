"""Workflows: `define_workflow` and the decorator."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from duraton.config import (
    BatchConfig,
    BudgetConfig,
    CapConfig,
    ConcurrencyConfig,
    Config,
    CronConfig,
    DebounceConfig,
    IdempotencyConfig,
    PriorityConfig,
    RateLimitConfig,
    RetryConfig,
    SingletonConfig,
    ThrottleConfig,
    TogetherConfig,
    TokenThrottleConfig,
    camel,
)
from duraton_schemas.errors import OptionsError
from duraton_schemas.options import WorkflowOptions

if TYPE_CHECKING:
    from duraton.context import StepContext

Handler = Callable[["StepContext"], Awaitable[object]]
"""`async def handle(ctx)`."""


class Options(TypedDict, total=False):
    """What `define_workflow` takes beside the name and the handler.

    Every control takes its class or the same as a mapping in wire form.

    Attributes:
        key: The flow's key, by which `together` counts (P52).
        retry: The policy of steps that state none of their own.
        on_failure: A handler for runs that failed; it has `ctx.error`.
        triggers: Event names; a trailing `*` matches a prefix. Left out, the
            workflow's own name.
        cron: Five fields, or a CronConfig with a time zone.
        extra: Fields in wire form, for example `{"batch": {"maxSize": 100}}`.
    """

    concurrency: ConcurrencyConfig | Mapping[str, Any] | None
    throttle: ThrottleConfig | Mapping[str, Any] | None
    rate_limit: RateLimitConfig | Mapping[str, Any] | None
    debounce: DebounceConfig | Mapping[str, Any] | None
    batch: BatchConfig | Mapping[str, Any] | None
    priority: PriorityConfig | Mapping[str, Any] | None
    singleton: SingletonConfig | Mapping[str, Any] | None
    idempotency: IdempotencyConfig | Mapping[str, Any] | None
    cap: CapConfig | Mapping[str, Any] | None
    budget: BudgetConfig | Mapping[str, Any] | None
    token_throttle: TokenThrottleConfig | Mapping[str, Any] | None
    together: TogetherConfig | Mapping[str, Any] | None
    key: str | None
    retry: RetryConfig | Mapping[str, Any] | None
    on_failure: Handler | None
    triggers: Sequence[str] | None
    cron: str | CronConfig | Mapping[str, Any] | None
    extra: Mapping[str, Any] | None


@dataclass(frozen=True, eq=False)
class WorkflowDefinition:
    """A named handler with its options, as `define_workflow` makes it.

    Attributes:
        name: The workflow's name.
        handler: What a run executes.
        on_failure: What is executed once a run has failed, or None.
        options: What is registered.
    """

    name: str
    handler: Handler = field(repr=False)
    on_failure: Handler | None = field(repr=False)
    options: WorkflowOptions = field(repr=False)


def define_workflow(name: str, handler: Handler, **options: Unpack[Options]) -> WorkflowDefinition:
    """Define a workflow.

    Args:
        name: Its name, and the event that starts it unless triggers or cron say otherwise.
        handler: `async def handle(ctx: StepContext)`.
        **options: See `Options`.

    Raises:
        OptionsError: An option that cannot work; nothing is defined.
    """
    on_failure = options.get("on_failure")
    _check_handler(name, "handler", handler)
    if on_failure is not None:
        _check_handler(name, "on_failure", on_failure)
    return WorkflowDefinition(name, handler, on_failure, _wire_options(name, dict(options)))


def workflow(
    name: str | None = None, **options: Unpack[Options]
) -> Callable[[Handler], WorkflowDefinition]:
    """The same as a decorator: `@workflow("order.created", retry=RetryConfig(3))`.

    Args:
        name: The workflow's name; left out, the function's.
        **options: See `Options`.

    Raises:
        OptionsError: An option that cannot work.
    """

    def define(handler: Handler) -> WorkflowDefinition:
        own = name if name is not None else getattr(handler, "__name__", "")
        return define_workflow(own, handler, **options)

    return define


def _wire_options(name: str, options: dict[str, Any]) -> WorkflowOptions:
    fields: dict[str, Any] = {"name": name}
    extra = options.pop("extra", None) or {}
    on_failure = options.pop("on_failure", None)
    for option, value in options.items():
        if option not in Options.__annotations__:
            meant = next((each for each in Options.__annotations__ if camel(each) == option), None)
            hint = f"; it is written {meant}" if meant else ""
            raise OptionsError(f"{name}: there is no option {option!r}{hint}")
        if value is not None:
            fields[camel(option)] = _wire_value(name, option, value)
    for field_name, value in extra.items():
        if field_name in fields:
            raise OptionsError(f"{name}: {field_name} is stated twice, once in extra")
        fields[field_name] = {"expr": value} if _is_bare_cron(field_name, value) else value
    if on_failure is not None:
        fields["onFailure"] = True
    try:
        known = msgspec.convert(fields, WorkflowOptions)
    except msgspec.ValidationError as error:
        raise OptionsError(f"{name}: {error}") from error
    known.check()
    return known


def _wire_value(workflow: str, option: str, value: Any) -> Any:
    if isinstance(value, Config):
        if value.control != camel(option):
            raise OptionsError(f"{workflow}: a {type(value).__name__} is no {option}")
        try:
            return value.wire()
        except OptionsError as error:
            raise OptionsError(f"{workflow}.{error}") from error
    if _is_bare_cron(option, value):
        return {"expr": value}
    if option == "triggers":
        if isinstance(value, str):
            raise OptionsError(f"{workflow}: triggers is a list of names, not one text")
        return list(value)
    if option == "key" or isinstance(value, Mapping):
        return value
    raise OptionsError(f"{workflow}: {option} takes its config class or a mapping, not {value!r}")


def _is_bare_cron(option: str, value: Any) -> bool:
    return option == "cron" and isinstance(value, str)


def _check_handler(workflow: str, option: str, handler: object) -> None:
    call = getattr(handler, "__call__", None)  # noqa: B004 - the method itself is looked at
    if not (inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)):
        raise OptionsError(f"{workflow}: {option} must be an `async def` function")
