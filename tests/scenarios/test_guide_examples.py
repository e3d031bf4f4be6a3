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
    summary, _, rank, extract, budget, test = examples("docs/guides/ai-spend.md")
    models = Models()
    names = {
        "client": models,
        "ask": models.ask,
        "call_house_model": lambda: {"in": 5, "out": 2, "order": [2, 1]},
    }
    for program in (summary, rank, extract, budget, test):
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
    names["ask"] = lambda: {"usage": {"total_tokens": 600}}
    async with duraton(names["triage_wf"]) as engine:
        [answer] = await engine.send("ticket.opened")
        await engine.advance("2m")
        run = await engine.run(answer.run_id)
        assert (run.status, run.paused_by.reason, run.spend.tokens) == ("paused", "budget", 1200)
        [warning] = await engine.events(name="duraton.budget.warning")
        assert (await engine.event(warning.id)).data["tokens"] == 1200
        await engine.advance("62m")
        assert (await engine.run(answer.run_id)).status == "completed"


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


class Guide:
    """The workflows of the flow-control guide, each of whose steps takes two seconds."""

    def __init__(self):
        self.names = {"do_the_work": self.work, "ask_the_model": self.ask}
        for example in examples("docs/guides/flow-control.md"):
            exec(compile(example, "docs/guides/flow-control.md", "exec"), self.names)
        self.engine = None

    async def work(self, data):
        await self.engine.clock.sleep(2)
        return data

    async def ask(self, question):
        return {"usage": {"prompt_tokens": 3_000, "completion_tokens": 0}}

    async def send(self, name, *datas, **more):
        return [(await self.engine.send(name, data, **more))[0] for data in datas]

    def starts(self, name):
        return [at for flow, _, at in self.engine.started if flow == name]


FLOWS = [
    "sync_account",
    "mail_customer",
    "sign_up",
    "save_document",
    "index_documents",
    "refund",
    "rebuild_index",
    "charge_order",
    "ship_order",
    "pack",
    "label",
    "answer_user",
]


@pytest.fixture
async def guide(duraton):
    made = Guide()
    async with duraton([made.names[name] for name in FLOWS]) as engine:
        made.engine = engine
        yield made


async def test_the_guides_group(guide):
    await guide.send("parcel.packed", *[{"team": "a"}] * 2)
    [answer] = await guide.send("parcel.labelled", {"team": "a"})
    waits = (await guide.engine.run(answer.run_id)).waiting_for
    assert (waits.kind, waits.key, waits.limit) == ("together", "team", 2)
    await guide.engine.advance("2s")
    assert guide.starts("parcel.labelled") == [guide.starts("parcel.packed")[0] + 2]


async def test_the_guides_concurrency(guide):
    answers = await guide.send("sync.account", *[{"accountId": 1}] * 6, {"accountId": 2})
    waits = (await guide.engine.run(answers[5].run_id)).waiting_for
    assert waits == {"kind": "concurrency", "key": "accountId", "value": "1", "limit": 5}
    await guide.engine.advance("3s")
    assert guide.starts("sync.account") == [0] * 6 + [2]


async def test_the_guides_throttle_has_no_burst(guide):
    await guide.send("mail.customer", *[{"customer": 1}] * 3)
    await guide.engine.advance("10s")
    await guide.send("mail.customer", *[{"customer": 1}] * 2)
    await guide.engine.advance("10s")
    assert guide.starts("mail.customer") == [0, 1, 2, 10, 11]


async def test_the_guides_rate_limit(guide):
    answers = await guide.send("user.signed-up", *[{"ip": "::1"}] * 4)
    assert [each.dropped for each in answers] == [False, False, False, True]
    [starts] = (await guide.engine.flow_detail("user.signed-up")).starts
    assert starts.dropped == 1


async def test_the_guides_debounce(guide):
    for n in range(3):
        await guide.send("document.edited", {"documentId": 1, "n": n})
        await guide.engine.advance("4s")
    first, *_ = reversed(await guide.engine.events())
    assert first.runs[0].outcome == "buffered"
    [window] = (await guide.engine.flow_detail("document.edited")).scopes
    assert window.age_ms == 12_000
    await guide.engine.advance("5s")
    [run] = await guide.engine.runs()
    assert (run.status, guide.starts("document.edited")) == ("completed", [13])
    events = [(each.runs[0].outcome, each.runs[0].run_id) for each in await guide.engine.events()]
    assert events == [("run", run.id), ("replaced", run.id), ("replaced", run.id)]


async def test_the_guides_batch(guide):
    await guide.send("index.documents", *[{"index": "a", "id": f"d{n}"} for n in range(3)])
    await guide.engine.advance("30s")
    [run] = await guide.engine.runs()
    steps = [step.id for step in (await guide.engine.run(run.id)).steps]
    assert (steps, guide.starts("index.documents")) == (["d0", "d1", "d2"], [5])
    assert {each.runs[0].run_id for each in await guide.engine.events()} == {run.id}


async def test_the_guides_priority_preempts_nothing(guide):
    first, second = await guide.send("refund.asked", {}, {})
    await guide.engine.advance("1s")
    runs = [await guide.engine.run(each.run_id) for each in (first, second)]
    assert [run.status for run in runs] == ["running", "queued"]


async def test_the_guides_singleton(guide):
    first, second = await guide.send("index.rebuild", {"index": 1}, {"index": 1})
    assert (second.skipped, second.run_id, second.blocked_by) == (True, None, first.run_id)


async def test_the_guides_idempotency_outlives_a_cancelled_run(guide):
    [first] = await guide.send("order.placed", {"orderId": 7})
    await guide.engine.act(first.run_id, "cancel")
    [second] = await guide.send("order.placed", {"orderId": 7})
    assert (second.deduped, second.run_id) == (True, None)
    await guide.engine.advance("24h")
    [third] = await guide.send("order.placed", {"orderId": 7})
    assert third.run_id is not None


async def test_the_guides_together_joins_its_own_callers(guide):
    first, second = await guide.send("order.paid", {"orderId": 7}, {"orderId": 7}, key="shop")
    [foreign] = await guide.send("order.paid", {"orderId": 7}, key="stranger")
    assert (second.joined, second.run_id) == (True, first.run_id)
    assert (foreign.refused, foreign.run_id, foreign.blocked_by) == ("T7103", None, None)


async def test_the_guides_token_throttle(guide):
    asked = {"userId": 1, "question": "why?"}
    await guide.send("question.asked", asked)
    await guide.engine.settle()
    [later] = await guide.send("question.asked", asked)
    # 3,000 tokens out of a bucket of 1,000: two minutes until its level is above 0.
    [bucket] = (await guide.engine.flow_detail("question.asked")).scopes
    assert (bucket.level, bucket.waiting) == (-2_000, 1)
    assert (await guide.engine.run(later.run_id)).waiting_for.until == bucket.next_start_at
    await guide.engine.advance("121s")
    assert guide.starts("question.asked") == [0, 120.001]


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
