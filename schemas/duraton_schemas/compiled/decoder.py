"""Source of decoders: one straight walk along the bytes that ends in the record itself.

Nothing checks in between whether a text reaches beyond the end: the place is
only moved on, so that the next byte is not there (IndexError), or, at the last
field, the place is not the end, which the caller compares.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from duraton_schemas.compiled import varint
from duraton_schemas.compiled.shape import Array, Nested, Optional, Scalar, Shape
from duraton_schemas.records.common import Record

DecodeFunction = Callable[[bytes, int], tuple[Record, int]]
"""From bytes and the place of the first field to the record and the place behind it."""

_NAMES: Final[Mapping[str, Any]] = {
    "LONG": varint.LONG_OF_BYTE,
    "LENGTH": varint.LENGTH_OF_BYTE,
    "BOOLEAN": varint.BOOLEAN_OF_BYTE,
    "read_long": varint.read_long,
    "read_length": varint.read_length,
    "read_block": varint.read_block,
    "bad_branch": varint.bad_branch,
    "unpack_double": struct.Struct("<d").unpack,
}


def compile_decoder(shape: Nested) -> DecodeFunction:
    """The function that reads a record.

    It raises BadRecordError, IndexError, ValueError or struct.error for bytes
    that are no such record, and gives a place beyond the end where the last
    field is cut short.
    """
    reader = _Reader(shape)
    names = {**_NAMES, **reader.kinds}
    code = compile(reader.source, f"<decoder of {shape.kind.__name__}>", "exec")
    exec(code, names)  # noqa: S102 - the source is made here, from schemas in this package
    return cast(DecodeFunction, names["decode"])


class _Reader:
    """Writes the lines of one decoder; `kinds` are the types that they name."""

    def __init__(self, shape: Nested) -> None:
        self.kinds: dict[str, type] = {}
        self._lines = ["def decode(raw, i):"]
        self._depth = 1
        self._names = 0
        record = self._record(shape)
        self._line(f"return {record}, i")
        self.source = "\n".join(self._lines) + "\n"

    def _record(self, shape: Nested) -> str:
        """Read a record's fields; gives the expression that makes it of them."""
        arguments = [f"{field}={self._value(inner)}" for field, inner in shape.fields]
        kind = shape.kind.__name__
        assert self.kinds.get(kind, shape.kind) is shape.kind, "two types of one name"
        self.kinds[kind] = shape.kind
        return f"{kind}({', '.join(arguments)})"

    def _value(self, shape: Shape, name: str = "") -> str:
        """Read a value into that name or one of its own; gives the name."""
        name = name or self._name()
        if isinstance(shape, Scalar):
            self._scalar(shape.name, name)
        elif isinstance(shape, Nested):
            self._line(f"{name} = {self._record(shape)}")
        elif isinstance(shape, Optional):
            self._optional(shape.inner, name)
        else:
            self._array(shape, name)
        return name

    def _optional(self, inner: Shape, name: str) -> None:
        self._line("b = raw[i]")
        self._line("i += 1")
        self._line("if b == 2:")
        self._depth += 1
        self._value(inner, name)
        self._depth -= 1
        self._line("elif b == 0:")
        self._line(f"    {name} = None")
        self._line("else:")
        self._line("    raise bad_branch(b)")

    def _array(self, shape: Array, name: str) -> None:
        count = self._name()
        self._line(f"{name} = []")
        self._line("while raw[i]:")
        self._depth += 1
        self._line(f"{count} = LENGTH[raw[i]]")
        self._line(f"if {count} < 0:")
        self._line(f"    {count}, i = read_block(raw, i)")
        self._line("else:")
        self._line("    i += 1")
        self._line(f"for _ in range({count}):")
        self._depth += 1
        self._line(f"{name}.append({self._value(shape.items)})")
        self._depth -= 2
        self._line("i += 1")

    def _scalar(self, avro: str, name: str) -> None:
        if avro == "long":
            self._line(f"{name} = LONG[raw[i]]")
            self._line(f"if {name} is None:")
            self._line(f"    {name}, i = read_long(raw, i)")
            self._line("else:")
            self._line("    i += 1")
        elif avro == "boolean":
            self._line(f"{name} = BOOLEAN[raw[i]]")
            self._line("i += 1")
        elif avro == "double":
            self._line(f"{name} = unpack_double(raw[i:i + 8])[0]")
            self._line("i += 8")
        else:
            self._line("n = LENGTH[raw[i]]")
            self._line("if n < 0:")
            self._line("    n, i = read_length(raw, i)")
            self._line("else:")
            self._line("    i += 1")
            decode = ".decode()" if avro == "string" else ""
            self._line(f"{name} = raw[i:(i := i + n)]{decode}")

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"
