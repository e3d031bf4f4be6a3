"""Keys sort as their bytes do, and come back from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duraton_streams.state.keys import after, decode_key, encode_key, prefix_range

PREFIX = b"\x07"
texts = st.text(alphabet=st.characters(codec=None), max_size=6) | st.text(
    "\x00\x01a\xff", max_size=4
)
numbers = st.integers(0, 2**64 - 1) | st.integers(0, 300)
keys = st.lists(numbers | texts, max_size=4).map(tuple)


def order(key):
    """The order that is promised: number before text, part by part, shorter first."""
    return [
        (
            isinstance(part, str),
            part if isinstance(part, str) else "",
            part if isinstance(part, int) else 0,
        )
        for part in key
    ]


@given(keys)
def test_a_key_comes_back_from_its_bytes(key):
    assert decode_key(encode_key(PREFIX, key)) == key


@given(keys, keys)
def test_bytes_sort_as_keys_do(a, b):
    raw_a, raw_b = encode_key(PREFIX, a), encode_key(PREFIX, b)
    assert (raw_a < raw_b) == (order(a) < order(b))
    assert (raw_a == raw_b) == (a == b)


@given(keys, keys)
def test_a_prefix_range_holds_exactly_what_begins_with_those_parts(prefix, key):
    low, high = prefix_range(PREFIX, prefix)
    assert (low <= encode_key(PREFIX, key) < high) == (key[: len(prefix)] == prefix)
    assert low <= encode_key(PREFIX, prefix + key) < high


def test_a_text_with_a_zero_byte_does_not_fall_into_the_range_of_its_beginning():
    low, high = prefix_range(PREFIX, ("a",))
    assert not low <= encode_key(PREFIX, ("a\x00b",)) < high
    assert encode_key(PREFIX, ("a", 2**64 - 1)) < encode_key(PREFIX, ("a\x00",))


@given(keys, keys)
def test_after_is_above_the_key_and_above_nothing_else(a, b):
    raw_a, raw_b = encode_key(PREFIX, a), encode_key(PREFIX, b)
    assert (raw_b >= after(raw_a)) == (raw_b > raw_a)


@pytest.mark.parametrize(
    "raw", [b"\x07\x09", b"\x07\x01\x00", b"\x07\x02abc", b"\x07\x02a\x00\xff"]
)
def test_bytes_that_are_no_key_are_refused(raw):
    with pytest.raises(ValueError):
        decode_key(raw)


@pytest.mark.parametrize("number", [-1, 2**64])
def test_numbers_out_of_range_are_refused(number):
    with pytest.raises(OverflowError):
        encode_key(PREFIX, (number,))
