"""Cursors of lists: opaque to callers, a place in an order that does not move."""

import base64
import binascii
import struct

import msgspec

from duraton_api.errors import BadParameterError

_FORM = struct.Struct(">qq")
PAST_ALL = (1 << 62, 1 << 62)
"""Before the newest row there can be."""


def write_cursor(at: int, num: int) -> str:
    """A cursor that stands after the row of that time and number."""
    return base64.urlsafe_b64encode(_FORM.pack(at, num)).rstrip(b"=").decode()


def read_cursor(text: str | None) -> tuple[int, int]:
    """The time and number that a cursor stands after; newest first where there is none.

    Raises:
        BadParameterError: It is no cursor of ours.
    """
    if text is None:
        return PAST_ALL
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        at, num = _FORM.unpack(raw)
    except (ValueError, binascii.Error, struct.error) as error:
        raise BadParameterError(f"{text!r} is no cursor of this list") from error
    return at, num


_texts = msgspec.json.Decoder(list[str])


def write_texts(*texts: str) -> str:
    """A cursor that stands after what some texts name, for lists that are ordered by name."""
    return base64.urlsafe_b64encode(msgspec.json.encode(texts)).rstrip(b"=").decode()


def read_texts(text: str | None) -> list[str]:
    """The texts of a cursor; none where there is no cursor.

    Raises:
        BadParameterError: It is no cursor of ours.
    """
    if text is None:
        return []
    try:
        texts = _texts.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise BadParameterError(f"{text!r} is no cursor of this list") from error
    return texts
