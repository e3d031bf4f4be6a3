"""Flow controls as a workflow states them: reading their wire form, refusing what cannot work.

Registrations keep the wire form as it was sent; this is how it is understood. Each
class is one field of the flow control seed, each rule names what is allowed.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from duraton_schemas.canonical import check_path
from duraton_schemas.cap import Cap, read_cap
from duraton_schemas.errors import KeyPathError, OptionsError

PERIOD_MS_MAX = 100 * 366 * 86_400_000
"""A hundred years: times have to be written."""
COUNT_MAX = 2**53 - 1
BATCH_SIZE_MAX = 10_000
"""Events of one batch; they stand in one record and one invocation."""
GROUP_LENGTH_MAX = 200
TOGETHER_MAX = 10
"""`together` with `max` left out (together seed)."""

Then = Literal["wait", "refuse", "stop", "join"]


class Rule(NamedTuple):
    """What a field may be.

    Attributes:
        allowed: For people, after "must be".
        read: Gives the value as it is kept, or raises ValueError.
    """

    allowed: str
    read: Callable[[Any], Any]


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _whole(value: Any) -> int:
    if not _is_number(value) or value != int(value):
        raise ValueError
    return int(value)


def whole(low: int, high: int, unit: str) -> Rule:
    """A whole number from `low` to `high`."""

    def read(value: Any) -> int:
        number = _whole(value)
        if not low <= number <= high:
            raise ValueError
        return number

    top = "" if high >= min(PERIOD_MS_MAX, COUNT_MAX) else f" and at most {high}"
    text = f"of at least {low}{top}" if low == 1 else f"from {low} to {high}"
    return Rule(f"a whole number{unit} {text}", read)


def above_zero(value: Any) -> float:
    """A number above 0, as it is.

    Raises:
        ValueError: It is none.
    """
    if not _is_number(value) or value <= 0:
        raise ValueError
    return float(value)


def _percent(value: Any) -> float:
    number = above_zero(value)
    if number > 100:
        raise ValueError
    return number


def _path(value: Any) -> str:
    if isinstance(value, str):
        check_path(value)
        return value
    raise ValueError


def _group(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= GROUP_LENGTH_MAX or "\0" in value:
        raise ValueError
    return value


def choice(*words: str) -> Rule:
    """One of some words."""

    def read(value: Any) -> str:
        if value not in words or not isinstance(value, str):
            raise ValueError
        return value

    return Rule("one of " + ", ".join(repr(word) for word in words), read)


COUNT = whole(1, COUNT_MAX, "")
MS = whole(1, PERIOD_MS_MAX, " of milliseconds")
SHIFT = whole(-PERIOD_MS_MAX, PERIOD_MS_MAX, " of milliseconds")
PATH = Rule("a dotted path into the event's data without empty segments", _path)
MONEY = Rule("a number of dollars above 0", above_zero)
PERCENT = Rule("a number above 0 and at most 100", _percent)
GROUP = Rule(f"a text of 1 to {GROUP_LENGTH_MAX} characters and no zero character", _group)


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

T = TypeVar("T")


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
            f"{workflow}: debounce and batch contradict each other; state one of them (P13)"
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
