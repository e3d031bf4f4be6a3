"""Slots, run ids, tokens, key paths and canonical texts."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duraton_schemas.canonical import canonical_text, check_path, read_path
from duraton_schemas.errors import BadRecordError, KeyPathError
from duraton_schemas.ids import Token, run_id, run_slot
from duraton_schemas.slots import SLOTS, home_slot, partition_of, slot_of, slots_of

SCALARS = st.one_of(st.text(), st.integers(), st.booleans(), st.floats(allow_nan=False))


# Slots --------------------------------------------------------------------


def test_slots_stay_where_they_are_for_ever():
    # A change of these numbers would leave every log unreadable.
    assert home_slot("shop", "order") == slot_of("workflow", "shop", "order")
    known = {
        ("workflow", "shop", "order"): 314,
        ("workflow", "", ""): 804,
        ("dedupe", "é"): 1009,
        ("wait", "order.paid", "orderId", "7"): 747,
    }
    assert {key: slot_of(*key) for key in known} == known


def test_parts_are_not_run_together():
    assert slot_of("k", "ab", "c") != slot_of("k", "a", "bc")


@given(st.integers(1, SLOTS))
def test_partitions_hold_neighbouring_slots_each_once(partitions):
    held = [slot for p in range(partitions) for slot in slots_of(p, partitions)]
    assert held == list(range(SLOTS))
    for p in range(partitions):
        assert {partition_of(slot, partitions) for slot in slots_of(p, partitions)} <= {p}


@given(st.text(), st.text())
def test_slots_are_in_range(app, workflow):
    assert 0 <= home_slot(app, workflow) < SLOTS


# Ids ------------------------------------------------------------------------


@given(st.integers(0, SLOTS - 1), st.text(), st.text(), st.text())
def test_a_run_id_carries_its_slot_and_comes_from_its_origin_alone(slot, origin, app, workflow):
    run = run_id(slot, origin, app, workflow)
    assert (len(run), run_slot(run)) == (28, slot)
    assert run == run_id(slot, origin, app, workflow)
    assert run != run_id(slot, origin + "x", app, workflow)
    assert run != run_id(slot, origin, app + "x", workflow)


def test_run_ids_stay_as_they_are_for_ever():
    assert (
        run_id(314, "event:duraton.events/0/0", "shop", "order") == "run_9ts0j40cr8nymhya2g7c2mg9"
    )


@pytest.mark.parametrize(
    "text", ["", "run_", "run_" + "a" * 23, "run_" + "z" * 25, "RUN_" + "0" * 24, "run_" + "i" * 24]
)
def test_what_is_no_run_id_is_refused(text):
    with pytest.raises(BadRecordError):
        run_slot(text)


@given(st.integers(0, 1023), st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_token_reads_back(partition, epoch, number):
    token = Token(partition, epoch, number)
    assert Token.parse(str(token)) == token


@pytest.mark.parametrize(
    "text", ["", "1.2", "1.2.3.4", "a.b.c", "-1.2.3", "1..3", "1.2.3 ", "²" * 5]
)
def test_what_is_no_token_is_refused(text):
    with pytest.raises(BadRecordError):
        Token.parse(text)


# Keys -----------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, {"id": 1}, [1], float("nan"), float("inf"), b"x"])
def test_case_002_what_is_no_scalar_does_not_resolve(value):
    assert canonical_text(value) is None
    assert read_path({"acc": value}, ("acc",)) is None


@pytest.mark.parametrize("data", [None, {}, [], "text", 7])
def test_case_002_data_without_the_field_does_not_resolve(data):
    assert read_path(data, ("acc",)) is None


@pytest.mark.parametrize(
    "path", ["constructor", "__proto__.x", "name.length", "__class__", "name.0"]
)
def test_case_003_a_path_reads_own_fields_only(path):
    assert read_path({"name": "abcd"}, check_path(path)) is None


def test_case_004_a_nested_field_and_never_a_flat_one_with_a_dot():
    path = check_path("user.id")
    assert read_path({"user.id": "A", "user": {"id": "B"}}, path) == "B"
    assert read_path({"user.id": "A"}, path) is None


@pytest.mark.parametrize("path", ["", ".a", "a.", "a..b", "."])
def test_case_005_a_malformed_path_is_refused(path):
    with pytest.raises(KeyPathError):
        check_path(path)


@pytest.mark.parametrize("same", [[1, "1", 1.0], [True, "true"], [False, "false"], [0, -0.0, "0"]])
def test_case_007_a_number_and_its_digits_are_one_key(same):
    assert len({canonical_text(value) for value in same}) == 1


def test_empty_text_is_a_value_and_text_is_compared_exactly():
    assert canonical_text("") == ""
    assert len({canonical_text(text) for text in ("a", "A", " a", "a ", "\u00e9", "e\u0301")}) == 6


@given(SCALARS)
def test_a_canonical_text_is_its_own(value):
    text = canonical_text(value)
    if isinstance(value, float) and math.isinf(value):
        assert text is None
    else:
        assert text is not None
        assert canonical_text(text) == text


@given(st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)))
def test_equal_numbers_have_equal_texts_and_others_have_not(number):
    text = canonical_text(number)
    if float(number) == number:
        assert canonical_text(float(number)) == text
    assert type(number)(Fraction(text)) == number


@given(st.lists(st.text(alphabet="ab", min_size=1), min_size=1, max_size=4), SCALARS)
def test_a_path_reads_what_stands_there(segments, value):
    data = value
    for segment in reversed(segments):
        data = {segment: data}
    assert read_path(data, check_path(".".join(segments))) == canonical_text(value)
