"""The documents: links lead somewhere, examples are Python, what they name exists."""

import re

import pytest
from house import ROOT, tracked

from duraton_api.view.schema import NAMES

PAGES = [p for p in tracked() if p.suffix == ".md"]
LINK = re.compile(r"\[[^\]]+\]\((?!https?://|#|mailto:)([^)#]+)")
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(
    r"`((?:schemas|streams|engine|api|sdk|tests|docs|scripts|bench|examples)/[\w./-]+)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_named_files_exist(page):
    text = page.read_text()
    gone = [to for to in LINK.findall(text) if not (page.parent / to).exists()]
    gone += [name for name in NAMED.findall(text) if "<" not in name and not (ROOT / name).exists()]
    assert not gone


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_are_python(page):
    for example in EXAMPLE.findall(page.read_text()):
        compile(example, str(page), "exec", flags=0x2000)  # top-level await is allowed


@pytest.mark.parametrize("name", [name for _, name in NAMES])
def test_every_table_of_the_view_is_told_of(name):
    assert f"`{name}`" in (ROOT / "docs/reference/view-tables.md").read_text()
