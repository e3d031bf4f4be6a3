"""Sees when a target's source files change."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

FILES_MAX = 5_000
"""Files looked at; a target in a larger tree reloads on the first of them only."""
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})

Stamps = dict[str, tuple[int, int]]
"""Time of change in nanoseconds and size, by path."""


class Watch:
    """The Python files of a target's package, or of its directory.

    Args:
        target: As on the command line.
    """

    def __init__(self, target: str) -> None:
        self._root, self._deep = _place_of(target)
        self._stamps = self._look()

    def changed(self) -> str | None:
        """A file that was changed, made or removed since the last call, or None."""
        now = self._look()
        before, self._stamps = self._stamps, now
        for path, stamp in now.items():
            if before.get(path) != stamp:
                return path
        return next((path for path in before if path not in now), None)

    def _look(self) -> Stamps:
        found: Stamps = {}
        for entry in _sources(self._root, deep=self._deep):
            try:
                stat = entry.stat()
            except OSError:
                continue
            found[entry.path] = (stat.st_mtime_ns, stat.st_size)
            if len(found) >= FILES_MAX:
                break
        return found


def _place_of(target: str) -> tuple[Path, bool]:
    """The directory to watch, and whether with all below it."""
    place = target.rpartition(":")[0] if ":" in target else target
    if place.endswith(".py"):
        return Path(place).resolve().parent, False
    top = place.split(".")[0]
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found = importlib.util.find_spec(top) if top.isidentifier() else None
    except (ImportError, ValueError):
        found = None
    finally:
        sys.path.remove(here)
    if found is None:
        return Path.cwd(), False
    if found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations))), True
    return Path(found.origin or here).resolve().parent, False


def _sources(folder: Path, *, deep: bool) -> Iterator["os.DirEntry[str]"]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(".py"):
            yield entry
        elif deep and _enters(entry):
            yield from _sources(Path(entry.path), deep=True)


def _enters(entry: "os.DirEntry[str]") -> bool:
    if entry.name in _SKIPPED or entry.name.startswith("."):
        return False
    return entry.is_dir(follow_symlinks=False)
