"""Values in their stored form, durations, and what a registration may say."""

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duraton_schemas.duration import DURATION_MS_MAX, to_ms
from duraton_schemas.errors import DurationError, OptionsError, ValueFormError, ValueSizeError
from duraton_schemas.options import AppOptions, read_app, write_app
from duraton_schemas.values import dump, load

# Values ---------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXT,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=15,
)


@given(JSON)
def test_what_json_can_carry_comes_back_as_it_was(value):
    assert load(dump(value)) == value
    assert json.loads(dump(value)) == value


@given(JSON)
def test_case_198_the_stored_form_is_the_same_when_stored_again(value):
    text = dump(value)
    assert dump(load(text)) == text


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Shade(enum.StrEnum):
    DARK = "dark"


@dataclasses.dataclass
class Point:
    x: int
    y: object = None


class Size(msgspec.Struct):
    width: int


class Name(str):
    __slots__ = ()

    def __str__(self):
        return "something else"


class Plain:
    def __init__(self):
        self.a = 1
        self._hidden = 2


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ((1, 2), [1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
        ({1: "a", "c": None}, {"1": "a", "c": None}),
        ({False: 1}, {"false": 1}),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), "2026-01-02T03:04:05+00:00"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (timedelta(seconds=1.5), 1500.0),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Shade.DARK, "dark"),
        ([Shade.DARK, {"k": Colour.RED}], ["dark", {"k": "red"}]),
        ({Name("k"): [Name("v")]}, {"k": ["v"]}),
        (Point(1, (2,)), {"x": 1, "y": [2]}),
        (Size(4), {"width": 4}),
        (Plain(), {"a": 1}),
        (None, None),
    ],
    ids=repr,
)
def test_case_198_a_handler_sees_the_stored_form_from_the_first(value, stored):
    assert load(dump(value)) == stored


def cycle():
    value = []
    value.append(value)
    return value


def wheel():
    value = Point(1)
    value.y = value
    return value


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        2**53 + 1,
        -(2**70),
        b"bytes",
        bytearray(b"x"),
        cycle(),
        wheel(),
        {"deep": [{"er": float("nan")}]},
        {(1, 2): "a"},
        object(),
        int,
        print,
        "half a surrogate \ud800",
        {"\ud800": 1},
        ["\udfff"],
    ],
    ids=lambda value: type(value).__name__,
)
def test_case_199_what_json_cannot_carry_is_refused_by_name(value):
    with pytest.raises(ValueFormError) as raised:
        dump(value)
    assert str(raised.value)


def test_a_forgotten_await_is_named():
    async def step():
        return 1

    forgotten = step()
    with pytest.raises(ValueFormError, match=r"type coroutine .* is an `await` missing"):
        dump({"paid": forgotten})
    forgotten.close()


def test_a_value_above_its_limit_is_refused_with_both_sizes():
    assert dump("é", limit=4) == '"é"'
    with pytest.raises(ValueSizeError, match=r"5 bytes.* 4"):
        dump("éx", limit=4)


# Durations -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (0, 0),
        (1500, 1500),
        (timedelta(minutes=2), 120_000),
        (timedelta(microseconds=1500), 2),
        ("500ms", 500),
        ("30s", 30_000),
        ("1.5m", 90_000),
        ("1h30m", 5_400_000),
        ("2 d", 172_800_000),
        (" 5s ", 5_000),
    ],
)
def test_durations_in_all_their_forms(value, ms):
    assert to_ms(value) == ms


@pytest.mark.parametrize(
    "value",
    ["", "s", "5", "5 apples", "1h nonsense", "-5s", "5s,", "1.5.5s", -1, float("nan"), float("inf"),
     True, None, [], timedelta(seconds=-1), DURATION_MS_MAX + 1, "99999999999d", "9" * 400 + "d"],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(DurationError):
        to_ms(value)


@given(st.timedeltas(timedelta(0), timedelta(days=36_000)))
def test_a_timedelta_is_rounded_to_whole_milliseconds(value):
    assert abs(to_ms(value) - value / timedelta(milliseconds=1)) <= 0.5


# Registrations ------------------------------------------------------------------


def app(**workflow):
    return json.dumps({"name": "shop", "workflows": [{"name": "order", **workflow}]})


def test_a_registration_reads_back_the_same():
    options = read_app(app(triggers=["a.*", "b"], retry={"maxAttempts": 3, "backoff": "linear"}))
    assert read_app(write_app(options)) == options
    assert write_app(read_app(write_app(options))) == write_app(options)


def test_a_workflow_is_started_by_its_own_name_unless_it_says_otherwise():
    assert read_app(app()).workflows[0].event_names() == ("order",)
    assert read_app(app(triggers=["a"])).workflows[0].event_names() == ("a",)
    assert read_app(app(cron={"expr": "* * * * *"})).workflows[0].event_names() == ()


@pytest.mark.parametrize(
    "retry",
    ['{"maxAttempts":0}', '{"maxAttempts":-1}', '{"maxAttempts":1.5}', '{"maxAttempts":NaN}',
     '{"initialDelayMs":-1}', '{"backoff":"expo"}', '{"maxDelayMs":-1}', '{"max_attempts":2}'],
)  # fmt: skip
def test_case_152_values_that_make_no_policy_are_refused(retry):
    with pytest.raises(OptionsError):
        read_app(
            '{"name":"shop","workflows":[{"name":"order","retry":RETRY}]}'.replace("RETRY", retry)
        )


def test_case_152_a_longest_delay_of_zero_retries_at_once():
    assert read_app(app(retry={"maxDelayMs": 0})).workflows[0].retry.max_delay_ms == 0


KEYED = {
    "concurrency": {"limit": 1},
    "throttle": {"limit": 1, "perMs": 1000},
    "rateLimit": {"limit": 1, "perMs": 1000},
    "debounce": {"periodMs": 1000},
    "batch": {"maxSize": 2, "timeoutMs": 1000},
    "singleton": {"mode": "skip"},
    "idempotency": {"periodMs": 1000},
    "tokenThrottle": {"tokens": 1, "perMs": 1000},
}


@pytest.mark.parametrize("control", KEYED)
@pytest.mark.parametrize("path", ["", ".a", "a.", "a..b", 7])
def test_case_005_a_malformed_key_is_refused_for_every_control_by_its_name(control, path):
    with pytest.raises(OptionsError, match=control):
        read_app(app(**{control: {**KEYED[control], "key": path}}))


@pytest.mark.parametrize("control", KEYED)
def test_a_control_that_can_work_is_kept_in_its_wire_form(control):
    fields = {**KEYED[control], "key": "user.id"}
    assert read_app(app(**{control: fields})).workflows[0].controls() == {control: fields}


@pytest.mark.parametrize(
    ("control", "field"),
    [(c, f) for c, fields in KEYED.items() for f in fields if f != "mode"],
)
@pytest.mark.parametrize("number", [0, -1, "1", True])
def test_a_limit_size_or_period_that_is_not_above_zero_is_refused(control, field, number):
    with pytest.raises(OptionsError, match=control):
        read_app(app(**{control: {**KEYED[control], field: number}}))


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"workflows":[]}', "name"),
        ('{"name":"shop","workflow":[]}', "workflow"),
        (app(unknown=1), "unknown"),
        (app(concurrency={"limit": 1.5}), "whole number"),
        (app(concurrency=7), "concurrency"),
        (
            app(debounce={"periodMs": 1}, batch={"maxSize": 1, "timeoutMs": 1}),
            "contradict each other",
        ),
        (app(triggers=["a*b"]), "a\\*b"),
        (app(triggers=[""]), "event name"),
        (app(triggers=["x"] * 101), "100 triggers"),
        ('{"name":"shop","url":"ftp://x"}', "http"),
        ('{"name":"a b"}', "no name for a app"),
        ('{"name":"shop","workflows":[{"name":""}]}', "no name"),
        ('{"name":"shop","workflows":[{"name":"a"},{"name":"a"}]}', "two workflows"),
    ],
)
def test_a_registration_that_cannot_work_is_refused_with_its_reason(raw, says):
    with pytest.raises(OptionsError, match=says):
        read_app(raw)


def test_a_registration_under_another_name_is_refused():
    with pytest.raises(OptionsError, match="not 'other'"):
        read_app(app(), name="other")
    assert isinstance(read_app(app(), name="shop"), AppOptions)
