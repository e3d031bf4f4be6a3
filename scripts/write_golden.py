"""Writes `tests/schemas/golden.json`: bytes of every record version, and what they mean.

Run it after drafting schemas (`make records` does both). Entries of released
versions are never written again: their bytes stand in people's logs.
"""

import json
import types
import typing
from pathlib import Path
from zlib import crc32

import msgspec

from duraton_schemas.author import FOLDER, Tree
from duraton_schemas.catalog import record_types
from duraton_schemas.codec import Codec

GOLDEN = Path(__file__).parents[1] / "tests" / "schemas" / "golden.json"

_LONGS = (0, 1, -1, 63, 64, -65, 8_191, 8_192, 1 << 27, 1_700_000_000_000, 2**63 - 1, -(2**63))
_TEXTS = ("", "a", "order.created", "é 日本 🜁", '{"a":[1,null]}', "x" * 64)
_FULL: dict[object, tuple[object, ...]] = {
    int: _LONGS,
    str: _TEXTS,
    bool: (True, False),
    bytes: (b"", b"\x00\xff"),
    float: (0.0, -1.5, 1e300),
}
_LEAST: dict[object, object] = {int: 0, str: "", bool: False, bytes: b"", float: 0.0}


def full(hint: object, path: str) -> object:
    """A value of a type with everything present; the path decides which."""
    if hint in _FULL:
        choices = _FULL[hint]
        return choices[crc32(path.encode()) % len(choices)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return full(_present(hint), path)
    if typing.get_origin(hint) is list:
        return [full(typing.get_args(hint)[0], f"{path}[{n}]") for n in range(2)]
    return hint(**{f.name: full(f.type, f"{path}.{f.name}") for f in msgspec.structs.fields(hint)})


def least(hint: object, name: str = "") -> object:
    """A value of a type with nothing present that may be absent."""
    if hint in _LEAST:
        return _LEAST[hint]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return least(_present(hint)) if name in ("header", "envelope") else None
    if typing.get_origin(hint) is list:
        return []
    return hint(**{f.name: least(f.type, f.name) for f in msgspec.structs.fields(hint)})


def _present(hint: object) -> object:
    return next(arg for arg in typing.get_args(hint) if arg is not types.NoneType)


def main() -> None:
    """Write what is missing or not yet released."""
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    codec, kinds, tree = Codec(), record_types(), Tree(FOLDER)
    newest = tree.newest()
    for number, entry in tree.ids.items():
        subject = entry["subject"]
        if entry is not newest[subject] or (entry["released"] and number in golden):
            continue
        samples = [full(kinds[subject], subject), least(kinds[subject])]
        golden[number] = {
            "subject": subject,
            "version": entry["version"],
            "samples": [
                {"bytes": codec.encode(sample).hex(), "record": msgspec.to_builtins(sample)}
                for sample in samples
            ],
        }
    kept = {number: golden[number] for number in sorted(golden, key=int) if number in tree.ids}
    GOLDEN.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
