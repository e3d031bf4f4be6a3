"""Frames as messages, none above the protocol's limits."""

from collections.abc import Iterator, Sequence

from duraton_schemas.wire.frames import FRAMES_MAX, MESSAGE_BYTES_MAX, Complete, Frame, Step, encode

_FRAME_BYTES = 1_024
"""What a frame takes beside the values it carries, generously."""
_BYTES_A_LETTER = 4


def messages_of(frames: Sequence[Frame]) -> Iterator[bytes]:
    """The bytes of messages that carry frames in order, split where they are too large."""
    start, size = 0, 0
    for place, frame in enumerate(frames):
        weight = _weight(frame)
        if place > start and (
            place - start >= FRAMES_MAX or size + weight > MESSAGE_BYTES_MAX // 2
        ):
            yield encode(list(frames[start:place]))
            start, size = place, 0
        size += weight
    if start < len(frames):
        yield encode(list(frames[start:]))


def _weight(frame: Frame) -> int:
    letters = 0
    if isinstance(frame, Step):
        letters = len(frame.output or "") + len(frame.data or "")
        if frame.error is not None:
            letters += len(frame.error.message) + len(frame.error.stack or "")
    elif isinstance(frame, Complete):
        letters = len(frame.output)
    return _FRAME_BYTES + (letters if letters < _FRAME_BYTES else letters * _BYTES_A_LETTER)
