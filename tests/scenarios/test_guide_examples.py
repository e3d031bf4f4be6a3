"""The programs that the first pages show, as they stand there."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def examples(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """The shop.py of the first pages, where examples import it from."""
    (tmp_path / "shop.py").write_text(examples("docs/start.md")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("shop", None)


def test_the_first_program_is_one():
    assert examples("README.md")[0].removeprefix("# shop.py\n") == examples("docs/start.md")[0]


async def test_the_tests_of_the_testing_guide_pass(shop, duraton):
    first, with_fixture, *_ = examples("docs/guides/testing.md")
    names = {}
    exec(compile(first + with_fixture, "docs/guides/testing.md", "exec"), names)
    await names["test_an_order_is_shipped_after_its_pause"]()
    await names["test_an_order_outlives_a_crash"](duraton)


async def test_the_tests_of_the_guide_to_failed_runs_pass(tmp_path, monkeypatch):
    program, *tests = examples("docs/guides/failed-runs.md")
    (tmp_path / "shop.py").write_text(program)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = {}
    try:
        exec(compile("\n".join(tests), "docs/guides/failed-runs.md", "exec"), names)
    finally:
        sys.modules.pop("shop", None)
    found = [test for name, test in names.items() if name.startswith("test_")]
    assert len(found) == 4
    for test in found:
        await test()


async def test_the_app_of_the_runners_guide_is_served_and_registers_itself(shop, monkeypatch):
    pytest.importorskip("fastapi")
    names = {}
    (web,) = (each for each in examples("docs/guides/runners.md") if "web.py" in each)
    exec(compile(web, "docs/guides/runners.md", "exec"), names)
    registered = []

    async def register(engine, options, api_key):
        registered.append((engine, options.name, options.url))
        return True

    monkeypatch.setattr("duraton.serving.register_app", register)
    async with names["lifespan"](names["api"]):
        assert registered == [("http://localhost:8420", "shop", "http://localhost:8000/duraton/")]
