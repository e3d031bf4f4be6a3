"""What was thrown, as a FrameError. Nothing here raises, whatever the error is like."""

import os
import traceback
from collections.abc import Iterator
from types import TracebackType

import duraton_schemas
from duraton.errors import FINAL_MARK, RETRY_AFTER_MARK, DuratonError
from duraton.runtime.delays import Delay, read_delay
from duraton_schemas.errors import SchemaError
from duraton_schemas.wire.frames import FrameError

MESSAGE_LENGTH_MAX = 8_192
STACK_LENGTH_MAX = 16_384
ERRORS_WALKED_MAX = 200
"""Errors looked at along causes and groups; more are somebody's accident."""
CAUSES_SHOWN_MAX = 4

_OURS = tuple(
    os.path.dirname(os.path.abspath(path)) + os.sep  # noqa: PTH100, PTH120 - compared as text
    for path in (__file__ + "/..", duraton_schemas.__file__)
)
_MACHINERY = tuple(
    f"{os.sep}{name}"
    for name in ("asyncio/", "concurrent/futures/", "contextlib.py", "threading.py")
)


def frame_error(error: BaseException) -> FrameError:
    """The error as the engine is told of it: final or not, and when to try again."""
    try:
        return _frame_error(error)
    except Exception as again:  # noqa: BLE001 - a user's own error class may do anything
        name = type(error).__name__
        return FrameError(message=f"{name}, whose text raised {type(again).__name__}", name=name)


def _frame_error(error: BaseException) -> FrameError:
    delay = retry_delay(error)
    final = is_final(error)
    return FrameError(
        message=message_of(error),
        name=type(error).__name__,
        stack=stack_of(error),
        code=_code(error),
        final=final,
        retry_after_ms=None if delay is None or final else delay.after_ms,
        retry_at=None if delay is None or final else delay.at_ms,
        note=None if delay is None else delay.note,
    )


def is_final(error: BaseException) -> bool:
    """Whether it, a cause of it or a member of a group says that retrying cannot help (P36)."""
    return any(_field(each, FINAL_MARK) is True for each in _walk(error))


def retry_delay(error: BaseException) -> Delay | None:
    """What a RetryAfterError, found in the same way, asks for; None where there is none."""
    for each in _walk(error):
        if hasattr(type(each), RETRY_AFTER_MARK) or RETRY_AFTER_MARK in _fields(each):
            return read_delay(_field(each, RETRY_AFTER_MARK))
    return None


def message_of(error: BaseException) -> str:
    """What the error says; a group's message names its members."""
    text = _own_message(error)
    if isinstance(error, BaseExceptionGroup):
        members = "; ".join(_member(each) for each in error.exceptions[:20])
        text = f"{text}: {members}"
    return _clean(text, MESSAGE_LENGTH_MAX) or type(error).__name__


def stack_of(error: BaseException) -> str | None:
    """The traceback's text: the user's frames only, causes below."""
    parts: list[str] = []
    each: BaseException | None = error
    seen: set[int] = set()
    while each is not None and id(each) not in seen and len(parts) < CAUSES_SHOWN_MAX:
        seen.add(id(each))
        head = "" if not parts else "Caused by: "
        line = f"{head}{type(each).__name__}: {_own_message(each)}"
        parts.append("".join([*_frames(each.__traceback__), line]))
        each = each.__cause__
    text = _clean("\n".join(parts), STACK_LENGTH_MAX)
    return text or None


def _member(error: BaseException) -> str:
    return f"{type(error).__name__}: {message_of(error)}"


def _own_message(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return str(error.message)
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a user's own __str__ may raise anything
        return " ".join(str(each) for each in error.args if isinstance(each, (str, int, float)))


def _frames(trace: TracebackType | None) -> list[str]:
    try:
        summary = [f for f in traceback.extract_tb(trace) if not _foreign(f.filename)]
        return traceback.format_list(summary[-30:])
    except Exception:  # noqa: BLE001 - source files may have gone or be unreadable
        return []


def _foreign(path: str) -> bool:
    return path.startswith(_OURS) or any(part in path for part in _MACHINERY)


def _code(error: BaseException) -> str | None:
    if not isinstance(error, (SchemaError, DuratonError)):
        return None
    code = _field(error, "code")
    return code if isinstance(code, str) else None


def _field(error: BaseException, name: str) -> object:
    """A field of an error, None where it has none or raises instead of giving it."""
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - a user's own __getattr__ may raise anything
        return None


def _fields(error: BaseException) -> dict[str, object]:
    fields = getattr(error, "__dict__", None)
    return fields if isinstance(fields, dict) else {}


def _clean(text: str, limit: int) -> str:
    """Text that any encoder takes, at most so long."""
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return text.encode("utf-8", "backslashreplace").decode()


def _walk(error: BaseException) -> Iterator[BaseException]:
    """The error, its explicit causes and the members of groups; each once."""
    todo: list[BaseException] = [error]
    seen: set[int] = set()
    while todo and len(seen) < ERRORS_WALKED_MAX:
        each = todo.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if each.__cause__ is not None:
            todo.append(each.__cause__)
        if isinstance(each, BaseExceptionGroup):
            todo.extend(each.exceptions)
