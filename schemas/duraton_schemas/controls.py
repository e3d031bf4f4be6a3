"""Flow controls as a workflow states them: reading their wire form, refusing what cannot work.

Registrations keep the wire form as it was sent; this is how it is understood. Each
class is one field of the flow control seed; `rules` has what its fields may be.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from duraton_schemas.cap import Cap, read_cap
from duraton_schemas.errors import KeyPathError, OptionsError
from duraton_schemas.rules import COUNT, GROUP, MONEY, MS, PATH, PERCENT, SHIFT, Rule, choice, whole

BATCH_SIZE_MAX = 10_000
"""Events of one batch; they stand in one record and one invocation."""
TOGETHER_MAX = 10
"""`together` with `max` left out (together seed)."""

Then = Literal["wait", "refuse", "stop", "join"]


class Concurrency(msgspec.Struct, frozen=True):
    """At most `limit` runs of a scope execute at once."""

    limit: int
    key: str | None = None


class Throttle(msgspec.Struct, frozen=True):
    """One start every `per_ms / limit` in a scope (P5)."""

    limit: int
    per_ms: int
    key: str | None = None


class RateLimit(msgspec.Struct, frozen=True):
    """At most `limit` admissions in any span of `per_ms` (P7)."""

    limit: int
    per_ms: int
    key: str | None = None


class Debounce(msgspec.Struct, frozen=True):
    """The last event of a burst runs after `period_ms` of quiet."""

    period_ms: int
    key: str | None = None


class Batch(msgspec.Struct, frozen=True):
    """A run gets up to `max_size` events, or those of `timeout_ms` after the first (P12)."""

    max_size: int
    timeout_ms: int
    key: str | None = None


class Priority(msgspec.Struct, frozen=True):
    """Runs queue as though they had been ready `shift_ms` earlier (P14)."""

    shift_ms: int


class Singleton(msgspec.Struct, frozen=True):
    """At most one unended run a scope; `cancel` replaces the old one (P15)."""

    key: str | None = None
    mode: Literal["skip", "cancel"] = "skip"


class Idempotency(msgspec.Struct, frozen=True):
    """One run for a key's value within `period_ms` of its claim (P17)."""

    key: str
    period_ms: int


class Budget(msgspec.Struct, frozen=True):
    """The most that a workflow's runs may spend in a rolling window (P30).

    Attributes:
        max_cost: Dollars, or None.
        max_tokens: Tokens, or None.
        window_ms: The window's length.
        warn_at_pct: At which percentage of an axis a warning is given, or None.
    """

    window_ms: int
    max_cost: float | None = None
    max_tokens: int | None = None
    warn_at_pct: float | None = None


class TokenThrottle(msgspec.Struct, frozen=True):
    """Starts wait while a scope's bucket of AI tokens is empty (P32)."""

    tokens: int
    per_ms: int
    key: str | None = None


class Together(msgspec.Struct, frozen=True):
    """How many runs of a flow's key may work at once, and what becomes of a start over that."""

    max: int = TOGETHER_MAX
    group: str | None = None
    then: Then = "wait"


class Controls(msgspec.Struct, frozen=True):
    """All controls of one workflow; None where it does not state one.

    Attributes:
        key: The flow's key, by which `together` counts (P52).
    """

    concurrency: Concurrency | None = None
    throttle: Throttle | None = None
    rate_limit: RateLimit | None = None
    debounce: Debounce | None = None
    batch: Batch | None = None
    priority: Priority | None = None
    singleton: Singleton | None = None
    idempotency: Idempotency | None = None
    cap: Cap | None = None
    budget: Budget | None = None
    token_throttle: TokenThrottle | None = None
    together: Together | None = None
    key: str | None = None


class _Form(NamedTuple):
    """How one control is read: its field in `Controls`, its class, a rule for each wire field."""

    field: str
    made: type[Any]
    rules: Mapping[str, Rule]
    needed: tuple[str, ...] = ()


_FORMS: Mapping[str, _Form] = {
    "concurrency": _Form("concurrency", Concurrency, {"limit": COUNT, "key": PATH}, ("limit",)),
    "throttle": _Form(
        "throttle", Throttle, {"limit": COUNT, "perMs": MS, "key": PATH}, ("limit", "perMs")
    ),
    "rateLimit": _Form(
        "rate_limit", RateLimit, {"limit": COUNT, "perMs": MS, "key": PATH}, ("limit", "perMs")
    ),
    "debounce": _Form("debounce", Debounce, {"periodMs": MS, "key": PATH}, ("periodMs",)),
    "batch": _Form(
        "batch",
        Batch,
        {"maxSize": whole(1, BATCH_SIZE_MAX, ""), "timeoutMs": MS, "key": PATH},
        ("maxSize", "timeoutMs"),
    ),
    "priority": _Form("priority", Priority, {"shiftMs": SHIFT}, ("shiftMs",)),
    "singleton": _Form("singleton", Singleton, {"key": PATH, "mode": choice("skip", "cancel")}),
    "idempotency": _Form(
        "idempotency", Idempotency, {"key": PATH, "periodMs": MS}, ("key", "periodMs")
    ),
    "budget": _Form(
        "budget",
        Budget,
        {"maxCost": MONEY, "maxTokens": COUNT, "windowMs": MS, "warnAtPct": PERCENT},
        ("windowMs",),
    ),
    "tokenThrottle": _Form(
        "token_throttle",
        TokenThrottle,
        {"tokens": COUNT, "perMs": MS, "key": PATH},
        ("tokens", "perMs"),
    ),
    "together": _Form(
        "together",
        Together,
        {"max": COUNT, "group": GROUP, "then": choice("wait", "refuse", "stop", "join")},
    ),
}

NAMES = (*_FORMS, "cap", "key")
"""The wire names of all flow control fields."""


def read_controls(workflow: str, stated: Mapping[str, Any]) -> Controls:
    """Understand the controls that a workflow states.

    Args:
        workflow: Its name, for messages.
        stated: Wire name to wire form, of those that are stated.

    Raises:
        OptionsError: One cannot work; the message names the workflow, the control, the
            field, the value and what is allowed.
    """
    found: dict[str, Any] = {}
    for name, form in _FORMS.items():
        if stated.get(name) is not None:
            found[form.field] = _read(f"{workflow}.{name}", form, stated[name])
    if stated.get("cap") is not None:
        found["cap"] = read_cap(workflow, stated["cap"])
    if stated.get("key") is not None:
        found["key"] = _value(workflow, "key", PATH, stated["key"])
    controls = Controls(**found)
    budget = controls.budget
    if budget is not None and budget.max_cost is None and budget.max_tokens is None:
        raise OptionsError(f"{workflow}.budget: state maxCost, maxTokens or both")
    if controls.debounce is not None and controls.batch is not None:
        raise OptionsError(
            f"{workflow}: debounce and batch contradict each other; state one of them"
        )
    return controls


def _read(where: str, form: _Form, stated: Any) -> Any:
    if not isinstance(stated, Mapping):
        raise OptionsError(f"{where}: it is an object with {', '.join(form.rules)}")
    unknown = sorted(set(stated) - set(form.rules))
    if unknown:
        raise OptionsError(
            f"{where}: there is no field {unknown[0]!r}; it has {', '.join(form.rules)}"
        )
    for name in form.needed:
        if stated.get(name) is None:
            raise OptionsError(f"{where}: {name} is missing; it must be {form.rules[name].allowed}")
    values = {
        _snake(name): _value(where, name, form.rules[name], value)
        for name, value in stated.items()
        if value is not None
    }
    return form.made(**values)


def _value(where: str, name: str, rule: Rule, value: Any) -> Any:
    try:
        return rule.read(value)
    except KeyPathError as error:
        raise OptionsError(f"{where}: {name}: {error}") from error
    except (ValueError, OverflowError) as error:
        raise OptionsError(f"{where}: {name} must be {rule.allowed}, not {value!r}") from error


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def check_groups(app: str, workflows: Mapping[str, Controls]) -> None:
    """Refuse one group stated with several `max` in one registration (P24).

    Raises:
        OptionsError: As said, naming the two workflows.
    """
    seen: dict[str, tuple[str, int]] = {}
    for name, controls in workflows.items():
        together = controls.together
        if together is None or together.group is None:
            continue
        other, most = seen.setdefault(together.group, (name, together.max))
        if most != together.max:
            raise OptionsError(
                f"{app}: {name}.together: group {together.group!r} has max {together.max} here "
                f"and {most} in {other}; state one max for a group"
            )
