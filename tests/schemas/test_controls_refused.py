"""Flow control that cannot work is refused where it is registered (P4, P13, P24, the seeds).

Every refusal names the workflow, the control, the field and the value, and says what is
allowed. `define_workflow` refuses for those who write Python, `read_app` for every other SDK
and for whoever writes to `PUT /apps/{app}`.
"""

import json
import math
import re
from datetime import timedelta

import pytest

import duraton
from duraton import App, OptionsError, TogetherConfig, define_workflow
from duraton_schemas.duration import DURATION_MS_MAX
from duraton_schemas.options import read_app, write_app

WORKFLOW = "order.created"


async def handle(ctx):
    return None


GOOD = {
    "concurrency": {"limit": 5, "key": "user.id"},
    "throttle": {"limit": 100, "perMs": 60_000, "key": "user.id"},
    "rateLimit": {"limit": 1000, "perMs": 60_000, "key": "user.id"},
    "debounce": {"periodMs": 5_000, "key": "user.id"},
    "batch": {"maxSize": 100, "timeoutMs": 5_000, "key": "user.id"},
    "priority": {"shiftMs": 60_000},
    "singleton": {"key": "user.id", "mode": "skip"},
    "idempotency": {"key": "user.id", "periodMs": 86_400_000},
    "cap": {"maxCost": 0.25, "maxTokens": 40_000},
    "budget": {"maxCost": 9.5, "maxTokens": 6_000, "windowMs": 3_600_000, "warnAtPct": 80},
    "tokenThrottle": {"tokens": 1_000, "perMs": 60_000, "key": "user.id"},
    "together": {"max": 5, "group": "perTeam", "then": "join"},
}
KEYED = [control for control, fields in GOOD.items() if "key" in fields]

COUNTS = [
    ("concurrency", "limit"),
    ("throttle", "limit"),
    ("rateLimit", "limit"),
    ("batch", "maxSize"),
    ("cap", "maxTokens"),
    ("budget", "maxTokens"),
    ("tokenThrottle", "tokens"),
    ("together", "max"),
]
PERIODS = [
    ("throttle", "perMs"),
    ("rateLimit", "perMs"),
    ("debounce", "periodMs"),
    ("batch", "timeoutMs"),
    ("idempotency", "periodMs"),
    ("budget", "windowMs"),
    ("tokenThrottle", "perMs"),
]
CLASSES = {
    "concurrency": duraton.ConcurrencyConfig,
    "throttle": duraton.ThrottleConfig,
    "rateLimit": duraton.RateLimitConfig,
    "debounce": duraton.DebounceConfig,
    "batch": duraton.BatchConfig,
    "priority": duraton.PriorityConfig,
    "singleton": duraton.SingletonConfig,
    "idempotency": duraton.IdempotencyConfig,
    "cap": duraton.CapConfig,
    "budget": duraton.BudgetConfig,
    "tokenThrottle": duraton.TokenThrottleConfig,
    "together": duraton.TogetherConfig,
}


# The ways to register -----------------------------------------------------------------


def snake(name):
    return re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), name)


def by_class(control, fields):
    """As Python people write it, with the control's own class."""
    config = CLASSES[control](**{snake(name): value for name, value in fields.items()})
    return define_workflow(WORKFLOW, handle, **{snake(control): config})


def by_mapping(control, fields):
    """The control's argument in wire form."""
    return define_workflow(WORKFLOW, handle, **{snake(control): fields})


def by_extra(control, fields):
    """In wire form by way of `extra`."""
    return define_workflow(WORKFLOW, handle, extra={control: fields})


def by_wire(control, fields):
    """What a runner of any language registers."""
    return read_app(wire_text({"name": WORKFLOW, control: fields}))


def wire_text(*workflows):
    return json.dumps({"name": "shop", "workflows": workflows})


PYTHON = [by_class, by_mapping, by_extra]
EVERY_WAY = [*PYTHON, by_wire]
EVERY_FORM = [by_mapping, by_extra, by_wire]

way = pytest.mark.parametrize("register", EVERY_WAY, ids=lambda each: each.__name__)
form = pytest.mark.parametrize("register", EVERY_FORM, ids=lambda each: each.__name__)


def changed(control, **fields):
    """A control that works, with fields changed; None leaves one out."""
    merged = {**GOOD[control], **fields}
    return {name: value for name, value in merged.items() if value is not None}


def refusal(register, *args):
    with pytest.raises(OptionsError) as raised:
        register(*args)
    return str(raised.value)


def assert_names(message, control, field, value=..., *allowed):
    """The message names the workflow, the control, the field and the value, and what is allowed.

    Each of `allowed` is a pattern that it must hold.
    """
    for name in (WORKFLOW, control, field):
        assert name in message, f"{name!r} is not named: {message}"
    if value is not ...:
        forms = {repr(value), str(value), json.dumps(value)}
        assert any(each in message for each in forms), f"{value!r} is not named: {message}"
    for pattern in allowed:
        assert re.search(pattern, message), f"it does not say {pattern!r}: {message}"


AT_LEAST_ONE = r"at least 1\b|above 0|positive"
WHOLE = r"\bwhole\b"


# What works ---------------------------------------------------------------------------


@way
@pytest.mark.parametrize("control", GOOD)
def test_what_can_work_is_taken_as_it_stands(register, control):
    made = register(control, GOOD[control])
    options = made.options if hasattr(made, "options") else made.workflows[0]
    assert options.controls() == {control: GOOD[control]}


@way
@pytest.mark.parametrize(
    ("control", "fields"),
    [
        ("concurrency", {"limit": 1}),
        ("throttle", {"limit": 1, "perMs": 1}),
        ("rateLimit", {"limit": 1, "perMs": 1}),
        ("debounce", {"periodMs": 1}),
        ("batch", {"maxSize": 1, "timeoutMs": 1}),
        ("priority", {"shiftMs": 0}),
        ("priority", {"shiftMs": -60_000}),
        ("singleton", {"mode": "cancel"}),
        ("idempotency", {"key": "a", "periodMs": 1}),
        ("cap", {"maxCost": 0.01}),
        ("cap", {"maxCost": 1}),
        ("cap", {"maxTokens": 1}),
        ("budget", {"maxTokens": 1, "windowMs": 1}),
        ("budget", {"maxCost": 0.5, "windowMs": 1, "warnAtPct": 100}),
        ("budget", {"maxCost": 0.5, "windowMs": 1, "warnAtPct": 0.5}),
        ("tokenThrottle", {"tokens": 1, "perMs": 1}),
        ("together", {"max": 1}),
        ("together", {"then": "wait"}),
        ("together", {"then": "refuse"}),
        ("together", {"then": "stop"}),
        ("together", {"group": "g"}),
    ],
    ids=str,
)
def test_the_least_that_works_is_taken(register, control, fields):
    register(control, fields)


@form
def test_controls_whose_parts_all_have_defaults_may_be_empty(register):
    register("together", {})
    register("singleton", {})


def test_python_takes_durations_in_their_forms():
    for value in (60_000, "60s", "1m", timedelta(minutes=1)):
        made = by_class("throttle", {"limit": 1, "perMs": value})
        assert made.options.throttle == {"limit": 1, "perMs": 60_000}


# Numbers ------------------------------------------------------------------------------


@way
@pytest.mark.parametrize(("control", "field"), COUNTS)
@pytest.mark.parametrize("value", [0, -1, -(2**40)])
def test_a_count_is_at_least_1(register, control, field, value):
    message = refusal(register, control, changed(control, **{field: value}))
    assert_names(message, control, field, value, AT_LEAST_ONE)


@way
@pytest.mark.parametrize(("control", "field"), COUNTS)
@pytest.mark.parametrize("value", [0.5, 1.5, "5", "", True, False, [5], {"n": 5}], ids=repr)
def test_a_count_is_a_whole_number(register, control, field, value):
    message = refusal(register, control, changed(control, **{field: value}))
    assert_names(message, control, field, value, WHOLE)


@way
@pytest.mark.parametrize(("control", "field"), PERIODS)
@pytest.mark.parametrize("value", [0, -1, -60_000])
def test_a_period_is_positive(register, control, field, value):
    message = refusal(register, control, changed(control, **{field: value}))
    assert_names(message, control, field, value, AT_LEAST_ONE)


@way
@pytest.mark.parametrize(("control", "field"), PERIODS)
@pytest.mark.parametrize("value", [0.5, 1500.5, True, False], ids=repr)
def test_a_period_is_whole_milliseconds(register, control, field, value):
    message = refusal(register, control, changed(control, **{field: value}))
    assert_names(message, control, field, value, WHOLE)


@way
@pytest.mark.parametrize(("control", "field"), PERIODS)
def test_a_period_is_no_longer_than_durations_are(register, control, field):
    message = refusal(register, control, changed(control, **{field: DURATION_MS_MAX + 1}))
    assert_names(message, control, field, DURATION_MS_MAX + 1)


@form
@pytest.mark.parametrize(("control", "field"), PERIODS)
@pytest.mark.parametrize("value", ["5s", "5000", "", [5], {"ms": 5}], ids=repr)
def test_a_period_in_wire_form_is_a_number(register, control, field, value):
    message = refusal(register, control, changed(control, **{field: value}))
    assert_names(message, control, field, value, WHOLE)


@pytest.mark.parametrize(("control", "field"), PERIODS)
@pytest.mark.parametrize("value", ["soon", "5", "-5s", "", timedelta(seconds=-1), [5]], ids=repr)
def test_a_period_that_is_no_duration_is_refused_by_name(control, field, value):
    message = refusal(by_class, control, changed(control, **{field: value}))
    assert WORKFLOW in message
    assert control in message
    assert field in message or snake(field) in message
    assert repr(value) in message or str(value) in message


@pytest.mark.parametrize("value", ["0s", "0ms", timedelta(0), timedelta(microseconds=1)], ids=repr)
@pytest.mark.parametrize(("control", "field"), PERIODS)
def test_a_duration_of_no_time_is_refused(control, field, value):
    message = refusal(by_class, control, changed(control, **{field: value}))
    assert_names(message, control, field, 0, AT_LEAST_ONE)


NO_NUMBERS = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("register", PYTHON, ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    ("control", "field"),
    [
        *COUNTS,
        *PERIODS,
        ("priority", "shiftMs"),
        ("cap", "maxCost"),
        ("budget", "maxCost"),
        ("budget", "warnAtPct"),
    ],
)
@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused(register, control, field, value):
    message = refusal(register, control, changed(control, **{field: value}))
    assert_names(message, control, field, value)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_json_has_no_such_numbers(value):
    message = refusal(by_wire, "concurrency", {"limit": value})
    assert "cannot be read" in message


@way
@pytest.mark.parametrize("value", [0.5, -1.5, "60000", True, [1]], ids=repr)
def test_a_shift_is_any_whole_number(register, value):
    if register is by_class and isinstance(value, str):
        value = "soon"  # a class takes text that is a duration
    message = refusal(register, "priority", {"shiftMs": value})
    assert WORKFLOW in message
    assert "priority" in message
    assert "shiftMs" in message or "shift_ms" in message
    assert str(value) in message or json.dumps(value) in message


@way
@pytest.mark.parametrize("control", ["cap", "budget"])
@pytest.mark.parametrize("value", [0, 0.0, -0.01, "1", True, [1]], ids=repr)
def test_a_cost_is_a_number_above_0(register, control, value):
    message = refusal(register, control, changed(control, maxCost=value))
    assert_names(message, control, "maxCost", value, r"above 0|more than 0|positive")


@way
@pytest.mark.parametrize("value", [0, -1, 100.5, 101, 8_000, "80", True], ids=repr)
def test_a_warning_is_at_more_than_0_and_at_most_100_percent(register, value):
    message = refusal(register, "budget", changed("budget", warnAtPct=value))
    assert_names(message, "budget", "warnAtPct", value, r"\b100\b")


# Words and fields ---------------------------------------------------------------------


@way
@pytest.mark.parametrize("value", ["queue", "Skip", "", 1, ["skip"]], ids=repr)
def test_a_singletons_mode_is_skip_or_cancel(register, value):
    message = refusal(register, "singleton", changed("singleton", mode=value))
    assert_names(message, "singleton", "mode", value, "skip", "cancel")


@way
@pytest.mark.parametrize("value", ["queue", "Wait", "drop", "", 1, ["wait"]], ids=repr)
def test_togethers_then_is_one_of_four_words(register, value):
    message = refusal(register, "together", changed("together", then=value))
    assert_names(message, "together", "then", value, "wait", "refuse", "stop", "join")


@way
@pytest.mark.parametrize("value", [7, True, ["g"], ""], ids=repr)
def test_togethers_group_is_a_name(register, value):
    message = refusal(register, "together", changed("together", group=value))
    assert_names(message, "together", "group", value)


@form
@pytest.mark.parametrize("control", GOOD)
def test_a_field_that_there_is_not_is_named(register, control):
    message = refusal(register, control, {**GOOD[control], "limits": 5})
    known = next(iter(GOOD[control]))
    assert_names(message, control, "limits", ..., known)


@form
@pytest.mark.parametrize(
    ("control", "field", "value"),
    [
        ("throttle", "per_ms", 1),  # Python's name
        ("debounce", "maxWaitMs", 1),  # other products'
        ("together", "key", "a"),  # the flow's own key is what it counts by (P52)
        ("priority", "key", "a"),
        ("cap", "key", "a"),
        ("budget", "key", "a"),
        ("batch", "size", 1),
    ],
)
def test_fields_that_people_may_expect_are_refused_too(register, control, field, value):
    message = refusal(register, control, {**GOOD[control], field: value})
    assert_names(message, control, field)


REQUIRED = [
    ("concurrency", "limit"),
    ("throttle", "limit"),
    ("throttle", "perMs"),
    ("rateLimit", "limit"),
    ("rateLimit", "perMs"),
    ("debounce", "periodMs"),
    ("batch", "maxSize"),
    ("batch", "timeoutMs"),
    ("priority", "shiftMs"),
    ("idempotency", "key"),
    ("idempotency", "periodMs"),
    ("budget", "windowMs"),
    ("tokenThrottle", "tokens"),
    ("tokenThrottle", "perMs"),
]


@form
@pytest.mark.parametrize(("control", "field"), REQUIRED)
def test_a_field_that_is_needed_is_asked_for(register, control, field):
    message = refusal(register, control, changed(control, **{field: None}))
    assert_names(message, control, field, ..., r"need|required|missing|must|state")


@form
@pytest.mark.parametrize(("control", "field"), REQUIRED)
def test_null_is_no_value(register, control, field):
    message = refusal(register, control, {**GOOD[control], field: None})
    assert_names(message, control, field)


@pytest.mark.parametrize("register", PYTHON[:1])
def test_idempotency_without_a_key_is_refused_by_its_class_as_well(register):
    message = refusal(register, "idempotency", {"key": None, "periodMs": 1000})
    assert_names(message, "idempotency", "key", ..., r"need|required|missing|must|state")


@way
def test_a_cap_needs_an_axis(register):
    message = refusal(register, "cap", {})
    assert_names(message, "cap", "maxCost", ..., "maxTokens", r"at least one|or")


@way
def test_a_budget_needs_an_axis(register):
    message = refusal(register, "budget", {"windowMs": 3_600_000, "warnAtPct": 80})
    assert_names(message, "budget", "maxCost", ..., "maxTokens", r"at least one|or")


@pytest.mark.parametrize("register", PYTHON[:1])
def test_a_budget_needs_a_window_by_its_class_as_well(register):
    message = refusal(register, "budget", {"maxTokens": 5})
    assert_names(message, "budget", "windowMs", ..., r"need|required|missing|must|state")


@form
@pytest.mark.parametrize("control", GOOD)
@pytest.mark.parametrize("value", [5, "5", True, [1]], ids=repr)
def test_a_control_is_an_object(register, control, value):
    assert control in refusal(register, control, value) or snake(control) in refusal(
        register, control, value
    )


# Keys ---------------------------------------------------------------------------------

MALFORMED = ["", ".", ".a", "a.", "a..b", "..", "a.b."]


@way
@pytest.mark.parametrize("control", KEYED)
@pytest.mark.parametrize("path", MALFORMED, ids=repr)
def test_a_malformed_path_is_refused_for_every_control(register, control, path):
    message = refusal(register, control, changed(control, key=path))
    assert_names(message, control, "key", path, r"dotted path|segment")


@way
@pytest.mark.parametrize("control", KEYED)
@pytest.mark.parametrize("path", [7, True, ["a"], {"path": "a"}], ids=repr)
def test_a_key_is_text(register, control, path):
    message = refusal(register, control, changed(control, key=path))
    assert_names(message, control, "key", path, r"dotted path")


def key_by_argument(path):
    return define_workflow(WORKFLOW, handle, key=path, together=TogetherConfig(max=1))


def key_by_extra(path):
    return define_workflow(WORKFLOW, handle, extra={"key": path, "together": {"max": 1}})


def key_by_wire(path):
    return read_app(wire_text({"name": WORKFLOW, "key": path, "together": {"max": 1}}))


@pytest.mark.parametrize("register", [key_by_argument, key_by_extra, key_by_wire])
@pytest.mark.parametrize("path", MALFORMED, ids=repr)
def test_a_flows_own_key_is_a_path_as_well(register, path):
    message = refusal(register, path)
    for part in (WORKFLOW, "key", repr(path)):
        assert part in message
    assert re.search(r"dotted path|segment", message)


@pytest.mark.parametrize("register", [key_by_argument, key_by_extra, key_by_wire])
@pytest.mark.parametrize("path", [7, True, ["a"]], ids=repr)
def test_a_flows_own_key_is_text(register, path):
    assert "key" in refusal(register, path)


@way
@pytest.mark.parametrize("control", KEYED)
@pytest.mark.parametrize("path", ["a", "a.b", "a b", "a-b.c_d", "0", "constructor", "ключ.id"])
def test_a_well_formed_path_is_taken(register, control, path):
    register(control, changed(control, key=path))


# Several controls, several workflows ---------------------------------------------------


def test_debounce_and_batch_contradict_each_other():
    both = {"debounce": GOOD["debounce"], "batch": GOOD["batch"]}
    for register in (
        lambda: define_workflow(WORKFLOW, handle, **both),
        lambda: define_workflow(WORKFLOW, handle, extra=both),
        lambda: read_app(wire_text({"name": WORKFLOW, **both})),
    ):
        message = refusal(register)
        assert_names(message, "debounce", "batch")


def group_in_python(*togethers):
    """An app of Python's, as it is registered."""
    flows = [
        define_workflow(f"flow-{n}", handle, together=together)
        for n, together in enumerate(togethers)
    ]
    return read_app(write_app(App("shop", flows).options()))


def group_on_the_wire(*togethers):
    return read_app(
        wire_text(*({"name": f"flow-{n}", "together": each} for n, each in enumerate(togethers)))
    )


group = pytest.mark.parametrize("register", [group_in_python, group_on_the_wire])


@group
@pytest.mark.parametrize(
    ("one", "other", "maxes"),
    [
        ({"max": 5}, {"max": 6}, ("5", "6")),
        ({"max": 5}, {}, ("5", "10")),  # left out, it is 10
    ],
)
def test_flows_of_one_group_state_one_max(register, one, other, maxes):
    same, others = {"group": "perTeam"}, {"group": "another", "max": 7}
    message = refusal(register, {**same, **one}, others, {**same, **other})
    for part in ("perTeam", "flow-0", "flow-2", "max", *maxes):
        assert part in message, f"{part!r} is not named: {message}"
    assert "flow-1" not in message


@group
def test_what_a_group_may_differ_in(register):
    # `then` says what becomes of that flow's own start (P24).
    register({"group": "g", "max": 5, "then": "wait"}, {"group": "g", "max": 5, "then": "stop"})
    register({"group": "g", "max": 10}, {"group": "g"})
    register({"group": "g", "max": 5}, {"group": "h", "max": 6}, {"max": 7})


@pytest.mark.parametrize("control", GOOD)
def test_the_workflow_at_fault_is_the_one_that_is_named(control):
    broken = {"name": WORKFLOW, control: {**GOOD[control], "nonsense": 1}}
    text = wire_text({"name": "before"}, broken, {"name": "after"})
    message = refusal(read_app, text)
    assert_names(message, control, "nonsense")
    assert "before" not in message
    assert "after" not in message
