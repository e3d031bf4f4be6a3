"""Keys: reading a dotted path from an event, and the text that two keys compare by.

The rules are P2 to P4: a path reads own fields of objects only, scalars are
text, numbers and booleans, and values are the same when their canonical texts
are the same.
"""

import math
from collections.abc import Mapping

from duraton_schemas.errors import KeyPathError

PATH_LENGTH_MAX = 500


def check_path(path: str) -> tuple[str, ...]:
    """Split a key path into its segments.

    Raises:
        KeyPathError: The path is empty, has an empty segment, a leading or trailing
            dot or a zero character, or is too long.
    """
    if len(path) > PATH_LENGTH_MAX or "\0" in path:
        raise KeyPathError(
            f"a key path has at most {PATH_LENGTH_MAX} characters and no zero character"
        )
    segments = tuple(path.split("."))
    if not path or any(not segment for segment in segments):
        raise KeyPathError(f"the key path {path!r} has an empty segment")
    return segments


def canonical_text(value: object) -> str | None:
    """The text by which a scalar is compared, or None where it is no scalar.

    1, 1.0 and "1" give "1"; true and "true" give "true"; "" is a value.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    return None


def read_path(data: object, path: tuple[str, ...]) -> str | None:
    """The canonical text at a path, or None where the path does not resolve."""
    for segment in path:
        if not isinstance(data, Mapping) or segment not in data:
            return None
        data = data[segment]
    return canonical_text(data)
