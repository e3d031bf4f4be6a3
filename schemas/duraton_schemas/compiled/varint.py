"""Avro's whole numbers: zigzag, then seven bits a byte, the lowest first.

A number of one byte is a look-up in the caller; the functions here are for wider ones.
"""

from functools import lru_cache
from typing import Final

from duraton_schemas.errors import BadRecordError

LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1

_PAIR_BITS: Final = 14
_PAIR_MASK: Final = (1 << _PAIR_BITS) - 1

SMALL_END: Final = 1 << (_PAIR_BITS - 1)
"""`SMALL` holds the bytes of every whole number from 0 up to here."""

_LAST: Final = tuple(
    bytes((pair,)) if pair < 128 else bytes((pair & 127 | 128, pair >> 7))
    for pair in range(1 << _PAIR_BITS)
)
"""The bytes of the last fourteen bits of a number."""

_MORE: Final = tuple(bytes((pair & 127 | 128, pair >> 7 | 128)) for pair in range(1 << _PAIR_BITS))
"""The bytes of fourteen bits that are followed by others."""

SMALL: Final = _LAST[::2]
SMALL_PRESENT: Final = tuple(b"\x02" + raw for raw in SMALL)
"""As `SMALL`, behind the mark of a union's second branch."""

LONG_OF_BYTE: Final = tuple(
    (byte >> 1) ^ -(byte & 1) if byte < 128 else None for byte in range(256)
)
"""The number that one byte alone makes; None where others follow."""

LENGTH_OF_BYTE: Final = tuple(
    byte >> 1 if byte < 128 and not byte & 1 else -1 for byte in range(256)
)
"""The length that one byte alone makes; -1 where others follow, or where it is none."""

_NARROW_END: Final = 1 << (2 * _PAIR_BITS - 1)
_WIDE_KEPT: Final = 1_024
"""Wide numbers are times, mostly, and the facts of a batch share theirs: so many are kept."""

_TIME_BYTES: Final = 6
"""Of a time in milliseconds, from 1970 to 2039; wider ones are read too, only slower."""

_LONG_BYTES_MAX: Final = 10
_MARKS: Final = tuple(sum(128 << 7 * byte for byte in range(n)) for n in range(_LONG_BYTES_MAX))
"""What the marks of so many leading bytes add to a number."""

BOOLEAN_OF_BYTE: Final = (False, True)


def write_long(number: int) -> bytes:
    """The bytes of any whole number of 64 bits.

    Raises:
        BadRecordError: It has more bits.
    """
    if 0 <= number < _NARROW_END:
        rest = number << 1
        if rest <= _PAIR_MASK:
            return _LAST[rest]
        return _MORE[rest & _PAIR_MASK] + _LAST[rest >> _PAIR_BITS]
    return _write_wide(number)


@lru_cache(maxsize=_WIDE_KEPT)
def _write_wide(number: int) -> bytes:
    if not LONG_MIN <= number <= LONG_MAX:
        raise BadRecordError(f"{number} does not fit 64 bits")
    rest = number << 1 if number >= 0 else ~(number << 1)
    raw = b""
    while rest > _PAIR_MASK:
        raw += _MORE[rest & _PAIR_MASK]
        rest >>= _PAIR_BITS
    return raw + _LAST[rest]


def read_long(raw: bytes, place: int) -> tuple[int, int]:
    """The whole number at a place, and the place behind it.

    Raises:
        BadRecordError: It has more than 64 bits.
        IndexError: The bytes end inside it.
    """
    # Each byte is added whole; what its mark "another follows" adds is taken off after.
    number = raw[place]
    if number < 128:
        return (number >> 1) ^ -(number & 1), place + 1
    byte = raw[place + 1]
    if byte < 128:
        number += (byte << 7) - _MARKS[1]
        return (number >> 1) ^ -(number & 1), place + 2
    last = raw[place + 2]
    if last < 128:
        number += (byte << 7) + (last << 14) - _MARKS[2]
        return (number >> 1) ^ -(number & 1), place + 3
    time = _read_time(raw[place : place + _TIME_BYTES])
    if time is not None:
        return time, place + _TIME_BYTES
    return _read_wide(raw, place)


@lru_cache(maxsize=_WIDE_KEPT)
def _read_time(raw: bytes) -> int | None:
    """The number that these six bytes make, or None where a number has fewer or more."""
    if len(raw) < _TIME_BYTES or any(byte < 128 for byte in raw[:-1]) or raw[-1] > 127:
        return None
    return _read_wide(raw, 0)[0]


def _read_wide(raw: bytes, place: int) -> tuple[int, int]:
    number = 0
    for count in range(_LONG_BYTES_MAX):
        byte = raw[place + count]
        number += byte << 7 * count
        if byte < 128:
            number -= _MARKS[count]
            if number >> 64:
                break
            return (number >> 1) ^ -(number & 1), place + count + 1
    raise BadRecordError("a whole number has more than 64 bits")


def read_length(raw: bytes, place: int) -> tuple[int, int]:
    """The length of a text or of bytes at a place, and the place behind it.

    Raises:
        BadRecordError: It is negative or has more than 64 bits.
        IndexError: The bytes end inside it.
    """
    length, place = read_long(raw, place)
    if length < 0:
        raise BadRecordError("a length is negative")
    return length, place


def read_block(raw: bytes, place: int) -> tuple[int, int]:
    """The number of items in an array's next block, and the place of the first.

    A negative number is followed by the block's size in bytes, which some
    writers add for readers that skip.

    Raises:
        BadRecordError: The block cannot fit in what is left.
        IndexError: The bytes end inside its head.
    """
    count, place = read_long(raw, place)
    if count < 0:
        count = -count
        _, place = read_length(raw, place)
    if count > len(raw) - place:
        raise BadRecordError("an array is longer than its record")
    return count, place


def bad_branch(branch: int) -> BadRecordError:
    """The error of a union's mark that is neither of its two branches."""
    return BadRecordError(f"the mark of an optional field is {branch}, neither 0 nor 2")
