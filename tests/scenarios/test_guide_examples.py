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


class Models:
    """A provider's client, and functions that call models, as the guide's reader has them."""

    def __init__(self):
        self.chat = self.completions = self
        self.asked = []

    async def create(self, *, model, messages):
        message = {"role": "assistant", "content": f"{messages[0]['content']} in short"}
        usage = {"prompt_tokens": 1000, "completion_tokens": 100}
        return {"model": f"{model}-2024-07-18", "choices": [{"message": message}], "usage": usage}

    async def ask(self, name=None):
        self.asked.append(name)
        text = "{" if len(self.asked) == 1 else '["sum", "due"]' if name is None else "yes"
        return {"text": text, "usage": {"input_tokens": 300, "output_tokens": 10}}


async def test_the_programs_of_the_guide_to_ai_spend(duraton):
    summary, _, rank, extract, test = examples("docs/guides/ai-spend.md")
    models = Models()
    names = {
        "client": models,
        "ask": models.ask,
        "call_house_model": lambda: {"in": 5, "out": 2, "order": [2, 1]},
    }
    for program in (summary, rank, extract, test):
        exec(compile(program, "docs/guides/ai-spend.md", "exec"), names)
    async with duraton(
        [names[f"{each}_wf"] for each in ("summarize", "rank", "extract")]
    ) as engine:
        [answer] = await engine.send("text.added", {"text": "War and Peace"})
        await engine.settle()
        run = await engine.run(answer.run_id)
        assert (run.output, run.spend.cost) == ("War and Peace in short", 0.00021)

        [answer] = await engine.send("list.added")
        await engine.settle()
        run = await engine.run(answer.run_id)
        assert (run.spend.tokens, run.steps[0].spend.model) == (7, "house-model")

        # Its first answer could not be parsed and was paid for: 310 each for that, for the
        # second, and for one of the two that the check asks for.
        [answer] = await engine.send("form.sent")
        await engine.advance("10s")
        run = await engine.run(answer.run_id)
        assert [step.spend.tokens for step in run.steps] == [620, 620]
        assert run.status == "completed"
    await names["test_the_run_is_halted"]()


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
