"""Bytes of keys: tuples of whole numbers and texts that sort as their bytes do.

A row's key is its table's number in one byte, then its parts. A whole number is
tag 1 and eight bytes, big endian; a text is tag 2, its UTF-8 with every zero byte
followed by 255, and a zero byte. So numbers sort before texts, a tuple sorts
before those that it begins, and what begins with some whole parts is one range.
"""

import struct

from duraton_streams.state.table import Key

_PAST_PARTS = b"\x03"
"""Above the tag of any part, below the 255 of an escaped zero byte."""
_INT_TAG = 1
_TEXT_TAG = 2
_END = b"\x00"
_ESCAPE = b"\xff"
_ESCAPED = _END + _ESCAPE
_pack_int = struct.Struct(">BQ").pack
_unpack_int = struct.Struct(">Q").unpack_from

Range = tuple[bytes, bytes]
"""The lowest key of a range, and the key above its highest."""


def encode_key(prefix: bytes, key: Key) -> bytes:
    """The bytes of a key.

    Args:
        prefix: What goes before it, the table's byte.
        key: Its parts.

    Raises:
        OverflowError: A number is below 0 or above 2^64-1.
    """
    raw = prefix
    try:
        for part in key:
            if isinstance(part, str):
                text = part.encode("utf-8", "surrogatepass")
                # asking the text is five times as fast as asking its bytes
                raw += b"\x02%b\x00" % (text.replace(_END, _ESCAPED) if "\0" in part else text)
            else:
                raw += _pack_int(_INT_TAG, part)
    except struct.error as error:
        raise OverflowError(f"a key's numbers go from 0 to 2^64-1: {key!r}") from error
    return raw


def decode_key(raw: bytes, start: int = 1) -> Key:
    """The parts of a key's bytes.

    Args:
        raw: The bytes.
        start: Where the parts begin, after the table's byte.

    Raises:
        ValueError: They are no key.
    """
    parts: list[int | str] = []
    at, size = start, len(raw)
    try:
        while at < size:
            tag = raw[at]
            if tag == _INT_TAG:
                parts.append(_unpack_int(raw, at + 1)[0])
                at += 9
            elif tag == _TEXT_TAG:
                end = raw.find(_END, at)
                text = raw[at + 1 : end]
                if end < 0 or raw[end + 1 : end + 2] == _ESCAPE:
                    end = _text_end(raw, at)
                    text = raw[at + 1 : end].replace(_ESCAPED, _END)
                parts.append(text.decode("utf-8", "surrogatepass"))
                at = end + 1
            else:
                raise ValueError(f"no key: {raw!r}")
    except struct.error as error:
        raise ValueError(f"no key: {raw!r}") from error
    return tuple(parts)


def prefix_range(prefix: bytes, key: Key) -> Range:
    """The range of the keys that begin with some whole parts, those parts alone included."""
    low = encode_key(prefix, key)
    return low, low + _PAST_PARTS


def after(raw: bytes) -> bytes:
    """The lowest bytes above some bytes."""
    return raw + b"\x00"


def _text_end(raw: bytes, at: int) -> int:
    """Where the zero byte stands that ends a text; an escaped one does not."""
    while True:
        end = raw.find(_END, at)
        if end < 0:
            raise ValueError(f"no key: {raw!r}")
        if raw[end + 1 : end + 2] != _ESCAPE:
            return end
        at = end + 2
