"""Source of encoders: one expression a field, gathered into tuples, joined once."""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from duraton_schemas.compiled.shape import Array, Nested, Optional, Scalar, Shape
from duraton_schemas.compiled.varint import SMALL, SMALL_END, SMALL_PRESENT, write_long
from duraton_schemas.records.common import Record

EncodeFunction = Callable[[Record], bytes]

_NAMES: Final[Mapping[str, Any]] = {
    "SMALL": SMALL,
    "SMALL_PRESENT": SMALL_PRESENT,
    "write_long": write_long,
    "pack_double": struct.Struct("<d").pack,
    "join": b"".join,
}


def compile_encoder(shape: Nested, frame: bytes) -> EncodeFunction:
    """The function that gives a record's bytes, behind its frame."""
    source = encoder_source(shape, frame)
    names = dict(_NAMES)
    code = compile(source, f"<encoder of {shape.kind.__name__}>", "exec")
    exec(code, names)  # noqa: S102 - the source is made here, from schemas in this package
    return cast(EncodeFunction, names["encode"])


def encoder_source(shape: Nested, frame: bytes) -> str:
    """The source of that function."""
    writer = _Writer()
    writer.give(repr(frame))
    writer.record(shape, "record")
    return writer.finish()


class _Writer:
    """Writes the lines of one encoder."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._given: list[str] = []
        self._begun = False
        self._depth = 1
        self._names = 0

    def finish(self) -> str:
        self._flush()
        body = ["def encode(record):", *self._lines, "    return join(parts)"]
        return "\n".join(body) + "\n"

    def give(self, *expressions: str) -> None:
        """Add expressions whose bytes come next, evaluated in that order."""
        self._given += expressions

    def record(self, shape: Nested, name: str) -> None:
        for field, inner in shape.fields:
            self._value(inner, f"{name}.{field}")

    def _value(self, shape: Shape, source: str) -> None:
        if isinstance(shape, Scalar):
            self.give(*_scalar(shape.name, source))
        elif isinstance(shape, Optional) and isinstance(shape.inner, Scalar):
            self.give(*_optional_scalar(shape.inner.name, source))
        elif isinstance(shape, Nested):
            name = self._name()
            # No flush: nothing that is given already changes by reading it early.
            self._lines.append("    " * self._depth + f"{name} = {source}")
            self.record(shape, name)
        elif isinstance(shape, Optional):
            self._optional(shape.inner, source)
        else:
            self._array(shape, source)

    def _optional(self, inner: Shape, source: str) -> None:
        name = self._name()
        self._line(f"{name} = {source}")
        self._line(f"if {name} is None:")
        self._inside(lambda: self.give(r"b'\x00'"))
        self._line("else:")

        def present() -> None:
            self.give(r"b'\x02'")
            if isinstance(inner, Nested):
                self.record(inner, name)
            else:
                self._value(inner, name)

        self._inside(present)

    def _array(self, shape: Array, source: str) -> None:
        items, item = self._name(), self._name()
        self._line(f"{items} = {source}")
        self._line(f"if {items}:")

        def filled() -> None:
            self.give(f"write_long(len({items}))")
            self._line(f"for {item} in {items}:")
            if isinstance(shape.items, Nested):
                nested = shape.items
                self._inside(lambda: self.record(nested, item))
            else:
                self._inside(lambda: self._value(shape.items, item))

        self._inside(filled)
        self.give(r"b'\x00'")

    def _inside(self, write: Callable[[], None]) -> None:
        self._flush()
        self._depth += 1
        write()
        self._flush()
        self._depth -= 1

    def _line(self, text: str) -> None:
        self._flush()
        self._lines.append("    " * self._depth + text)

    def _flush(self) -> None:
        if self._given:
            given, self._given = self._given, []
            # The frame is given first, so the list begins before any branch.
            self._line(f"parts {'+=' if self._begun else '='} [{', '.join(given)}]")
            self._begun = True

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"


def _scalar(name: str, source: str) -> tuple[str, ...]:
    if name == "long":
        number = f"(n := {source})"
        return (f"SMALL[n] if 0 <= {number} < {SMALL_END} else write_long(n)",)
    if name == "boolean":
        return (rf"b'\x01' if {source} else b'\x00'",)
    if name == "double":
        return (f"pack_double({source})",)
    raw = f"{source}.encode()" if name == "string" else source
    length = f"SMALL[n] if (n := len(s := {raw})) < {SMALL_END} else write_long(n)"
    return length, "s"


def _optional_scalar(name: str, source: str) -> tuple[str, ...]:
    absent = r"b'\x00' if (s := " + source + ") is None else "
    if name == "long":
        return (rf"{absent}SMALL_PRESENT[s] if 0 <= s < {SMALL_END} else b'\x02' + write_long(s)",)
    if name == "boolean":
        return (rf"{absent}b'\x02\x01' if s else b'\x02\x00'",)
    if name == "double":
        return (rf"{absent}b'\x02' + pack_double(s)",)
    raw = "s.encode()" if name == "string" else "s"
    length = (
        f"SMALL_PRESENT[n] if (n := len(s := {raw})) < {SMALL_END} "
        r"else b'\x02' + write_long(n)"
    )
    return absent + length, "s or b''"
