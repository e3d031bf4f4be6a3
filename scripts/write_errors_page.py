"""Writes docs/reference/errors.md from the errors' own words (`make docs`).

Codes that no class has (they stand in the errors of runs) are taken from the
constants of each errors.py; a text below such a constant is their explanation.
"""

import ast
import importlib
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "errors.md"
COMPONENTS = {
    "duraton": "The SDK: what your own program meets",
    "duraton_api": "The HTTP API, the views and the command line",
    "duraton_engine": "The engine: refusals, and the errors of runs",
    "duraton_streams": "Logs, state and partitions",
    "duraton_schemas": "Records, values and registrations",
}
HEAD = """# Errors

Every error that people meet has a code that stays the same, a message that names the case, and
what to do. Over HTTP it is an RFC 9457 problem document with `code`, `title`, `detail` and
`advice`; on the command line it is one line on stderr and exit status 1 (2 for wrong usage); in the
errors of runs and steps it is `error.code`.

*Again* says whether trying the same once more can help by itself.

This page is written by `make docs` from the errors' own texts.
"""


def main() -> None:
    """Write the page."""
    parts, seen = [HEAD], set()
    for package, title in COMPONENTS.items():
        errors = importlib.import_module(f"{package}.errors")
        sections = [text for code, text in sections_of(errors) if code not in seen]
        seen |= {code for code, _ in sections_of(errors)}
        parts.append(f"## {title}\n\n" + "\n".join(sections))
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(parts))


def sections_of(errors: object) -> list[tuple[str, str]]:
    """Each code of an errors module and its section, by code."""
    found = {}
    for value in vars(errors).values():
        if not isinstance(value, type) or value.__module__ != errors.__name__:
            continue
        if "code" in vars(value):
            again = "yes" if getattr(value, "retriable", False) else "no"
            status = f" HTTP {value.status}." if hasattr(value, "status") else ""
            what = paragraph(inspect.getdoc(value) or "")
            found[value.code] = (
                f"### `{value.code}`\n\n{what}{status}\n\n"
                f"*What to do:* {value.advice}  \n*Again:* {again}\n"
            )
    for code, text in constants_of(errors):
        found.setdefault(code, f"### `{code}`\n\n{text}\n")
    return sorted(found.items())


def paragraph(text: str) -> str:
    """A docstring's first paragraphs, without its Args and Attributes."""
    body = re.split(r"\n\s*(?:Args|Attributes|Raises|Returns):", text)[0]
    return " ".join(body.split())


def constants_of(errors: object) -> list[tuple[str, str]]:
    """The codes that are constants of the module, and the text below each."""
    tree = ast.parse(Path(inspect.getfile(errors)).read_text())
    found = []
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        name, code = node.targets[0], node.value.value
        if not isinstance(name, ast.Name) or not name.id.isupper() or not isinstance(code, str):
            continue
        if not re.fullmatch(r"[a-z0-9-]+", code):
            continue
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        found.append((code, paragraph(str(after.value.value)) if is_text else ""))
    return found


if __name__ == "__main__":
    main()
