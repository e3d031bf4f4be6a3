"""Bytes of keys: tuples of whole numbers and texts that sort as their bytes do.

A row's key is its table's number in one byte, then its parts. A whole number is
tag 1 and eight bytes, big endian; a text is tag 2, its UTF-8 with every zero byte
followed by 255, and a zero byte. So numbers sort before texts, a tuple sorts
before those that it begins, and what begins with some whole parts is one range.
"""

from duraton_streams.state.table import Key

_INT = b"\x01"
_TEXT = b"\x02"
_PAST_PARTS = b"\x03"
"""Above the tag of any part, below the 255 of an escaped zero byte."""
_INT_TAG = 1
_TEXT_TAG = 2
_END = b"\x00"
_ESCAPED = b"\x00\xff"

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
    for part in key:
        if isinstance(part, str):
            text = part.encode("utf-8", "surrogatepass")
            if _END in text:
                text = text.replace(_END, _ESCAPED)
            raw += _TEXT + text + _END
        else:
            raw += _INT + part.to_bytes(8, "big")
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
    while at < size:
        tag = raw[at]
        at += 1
        if tag == _INT_TAG and at + 8 <= size:
            parts.append(int.from_bytes(raw[at : at + 8], "big"))
            at += 8
        elif tag == _TEXT_TAG:
            end = _text_end(raw, at)
            text = raw[at:end]
            if _END in text:
                text = text.replace(_ESCAPED, _END)
            parts.append(text.decode("utf-8", "surrogatepass"))
            at = end + 1
        else:
            raise ValueError(f"no key: {raw!r}")
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
        if raw[end + 1 : end + 2] != b"\xff":
            return end
        at = end + 2
