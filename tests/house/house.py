"""The source tree as the tests of the house read it."""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "duraton_schemas": ROOT / "schemas",
    "duraton_streams": ROOT / "streams",
    "duraton_engine": ROOT / "engine",
    "duraton_api": ROOT / "api",
    "duraton": ROOT / "sdk",
}


@dataclass(frozen=True)
class Module:
    """A module of one of our packages."""

    name: str
    package: str
    path: Path
    tree: ast.Module
    lines: int

    @property
    def place(self) -> str:
        return str(self.path.relative_to(ROOT))


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the source roots."""
    return tuple(
        _module(package, root, path)
        for package, root in PACKAGES.items()
        for path in sorted((root / package).rglob("*.py"))
    )


def _module(package: str, root: Path, path: Path) -> Module:
    text = path.read_text()
    parts = list(path.relative_to(root).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return Module(".".join(parts), package, path, ast.parse(text), len(text.splitlines()))


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """The line and name of each module that it imports, at whatever depth."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = node.module or ""
            if node.level:
                is_package = module.path.name == "__init__.py"
                parents = module.name.split(".")
                base = parents[: len(parents) - node.level + is_package]
                name = ".".join([*base, name] if name else base)
            yield node.lineno, name


@cache
def tracked() -> tuple[Path, ...]:
    """The files that git tracks, those that are new and not ignored among them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
        return tuple(p for p in (ROOT / name for name in sorted(set(names))) if p.is_file())
    # Not a git checkout: all but what .gitignore names.
    skipped = re.compile(r"(^|/)(\.|build/|dist/|__pycache__|.*\.egg-info)")
    files = (p for p in ROOT.rglob("*") if p.is_file())
    return tuple(sorted(p for p in files if not skipped.search(str(p.relative_to(ROOT)))))


@cache
def tracked_text() -> tuple[tuple[Path, str], ...]:
    """The tracked files that are text."""
    found = []
    for path in tracked():
        try:
            found.append((path, path.read_text()))
        except UnicodeDecodeError:
            continue
    return tuple(found)
