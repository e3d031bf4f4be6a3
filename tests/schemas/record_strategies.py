"""Hypothesis strategies that make records of any type, edge values included."""

import types
import typing
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st

LONGS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from(
        [
            sign * (1 << bits) + step
            for bits in range(0, 63, 7)
            for sign in (1, -1)
            for step in (-1, 0)
        ]
        + [2**63 - 1, -(2**63), 8191, 8192, 1_700_000_000_000]
    ),
    st.integers(-3, 3),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", "é", "日本", "\x00", "🜁" * 40, "a" * 63, "a" * 64, "a" * 8191, "a" * 8192]
    ),
)
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: LONGS,
    str: TEXTS,
    bool: st.booleans(),
    bytes: st.binary(max_size=200),
    float: st.floats(allow_nan=False),
}


@cache
def records(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Records of a type, whole: also the header or envelope that Python leaves optional."""
    fields = {f.name: _values(f) for f in msgspec.structs.fields(kind)}
    return st.builds(kind, **fields)


def _values(field: msgspec.structs.FieldInfo) -> st.SearchStrategy[Any]:
    if field.name in ("header", "envelope"):
        return _of(next(a for a in typing.get_args(field.type) if a is not types.NoneType))
    return _of(field.type)


def _of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return st.one_of(
            [st.none() if a is types.NoneType else _of(a) for a in typing.get_args(hint)]
        )
    if typing.get_origin(hint) is list:
        return st.lists(_of(typing.get_args(hint)[0]), max_size=3)
    return records(hint)
