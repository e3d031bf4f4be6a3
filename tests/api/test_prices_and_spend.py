"""Prices and spend as people meet them: HTTP, the command line, metrics, SQL."""

import asyncio
import json

import httpx
import pytest

from duraton import App, CapConfig, connect, define_workflow
from duraton_api.cli import main
from duraton_api.http.metrics import AI_SERIES_MAX, Metrics
from duraton_api.node.node import Node
from duraton_api.node.settings import NodeSettings
from duraton_api.node.unpriced import MODELS_MAX, Unpriced
from duraton_engine.effects import Metered
from duraton_schemas.records.common import StepSpend

TABLE = {"version": "mine-1", "models": {"m": {"input": 1.0, "output": 2.0}}}


async def handle(ctx):
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    await ctx.step.ai.wrap("odd", lambda: {"model": "m"})
    await ctx.step.ai.wrap("ask", lambda: {"model": "m", "usage": usage})
    await ctx.step.ai.wrap("more", lambda: {"model": "m", "usage": usage})


SHOP = App("shop", [define_workflow("asked", handle, cap=CapConfig(max_tokens=110))])


@pytest.fixture
async def node(tmp_path, monkeypatch):
    for name in ("DURATON_API_KEY", "DURATON_KAFKA"):
        monkeypatch.delenv(name, raising=False)
    async with Node(NodeSettings(data=tmp_path / "data", port=0)) as made:
        monkeypatch.setenv("DURATON_URL", made.url)
        monkeypatch.setenv("DURATON_DATA", str(tmp_path / "data"))
        yield made


@pytest.fixture
async def http(node):
    async with httpx.AsyncClient(base_url=node.url) as client:
        yield client


@pytest.fixture
def cli(capsys):
    async def run(*arguments, status=0):
        capsys.readouterr()
        assert await asyncio.to_thread(main.run, list(arguments)) == status
        return capsys.readouterr()

    return run


async def test_the_table_is_read_and_replaced_whole(http):
    found = (await http.get("/prices")).json()
    assert found["version"] == "default-1"
    assert found["models"]["gpt-4o"] == {"input": 2.5, "output": 10.0, "cachedInput": 1.25}
    again = await http.put("/prices", json=found)
    assert again.json() == {"version": "default-1", "registry": 0, "pending": False}
    put = (await http.put("/prices", json=TABLE)).json()
    assert (put["version"], put["pending"]) == ("mine-1", False) and put["registry"] > 0
    assert (await http.get("/prices")).json() == TABLE


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"{", 400, "cannot be read"),
        (b'{"version":"2","models":{"m":{"input":-1,"output":1}}}', 400, "m: a price"),
        (b'{"version":"mine-1","models":{}}', 409, "a version of its own"),
    ],
)
async def test_a_table_that_cannot_work_is_refused_and_the_old_one_stays(http, body, status, says):
    await http.put("/prices", json=TABLE)
    response = await http.put("/prices", content=body)
    assert (response.status_code, response.json()["code"]) == (status, "prices-refused")
    assert says in response.json()["detail"]
    assert (await http.get("/prices")).json() == TABLE


async def test_prices_by_the_command_line(cli, node, tmp_path):
    out, err = await cli("prices", "get")
    assert "gpt-4o-mini" in out and "version default-1" in err
    file = tmp_path / "prices.json"
    file.write_text(json.dumps(TABLE))
    assert "mine-1 is in force" in (await cli("prices", "put", str(file))).err
    assert json.loads((await cli("prices", "get", "--json")).out) == TABLE
    file.write_text(json.dumps(TABLE | {"models": {}}))
    assert "prices-refused" in (await cli("prices", "put", str(file), status=1)).err
    assert "cannot read" in (await cli("prices", "put", str(tmp_path / "no"), status=2)).err


async def test_spend_is_shown_everywhere(http, cli, node):
    await http.put("/prices", json=TABLE)
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(connect(SHOP, node.url, stop=stop, ready=lambda _: ready.set()))
    await asyncio.wait_for(ready.wait(), 10)
    answer = (await http.post("/events", json={"name": "asked"})).json()
    run_id = answer["answers"][0]["runId"]
    run = {"endedAt": None}
    while not run["endedAt"]:
        run = (await http.get(f"/runs/{run_id}")).json()
    stop.set()
    await task

    assert run["error"]["code"] == "cap-reached"
    spent = {"tokens": 110, "cost": None, "knownCost": 0.00012, "usageUnknown": True}
    assert run["spend"] == spent
    assert run["steps"][1]["spend"] == {
        "tokens": 110, "cost": 0.00012, "knownCost": 0.00012, "usageUnknown": False,
        "model": "m", "prompt": 100, "completion": 10, "cached": 0, "cacheWrites": 0,
        "prices": "mine-1",
    }  # fmt: skip
    assert run["steps"][0]["spend"]["usageUnknown"] and run["steps"][2]["spend"] is None
    listed = (await http.get("/runs")).json()["runs"]
    assert [each["spend"] for each in listed] == [spent]

    metrics = (await http.get("/metrics")).text
    labels = '{app="shop",model="m",workflow="asked"}'
    for line in (
        f"duraton_ai_tokens_total{labels} 110.0",
        f"duraton_ai_cost_dollars_total{labels} 0.00012",
        f"duraton_ai_unknown_calls_total{labels} 1.0",
    ):
        assert line in metrics

    out = (await cli("runs", "get", run_id)).out
    assert "110 tokens, cost unknown, some usage unknown" in out
    assert "ask completed (110 tokens, $0.0001)" in out
    query = "select model, tokens, cost_micros from steps where step = 'ask'"
    rows = json.loads((await cli("sql", query, "--json")).out)
    assert "m" in str(rows) and "120" in str(rows)


def metered(model="m", **more):
    spend = StepSpend(model=model, tokens=10, prompt=8, completion=2, **more)
    return Metered("shop", "asked", spend, "mine-1")


def test_models_and_workflows_are_counted_apart_up_to_a_limit():
    metrics = Metrics()
    for number in range(AI_SERIES_MAX + 10):
        metrics.metered(metered(f"m-{number}"))
    metrics.metered(metered("m-0"))
    text = metrics.text().decode()
    assert 'duraton_ai_tokens_total{app="shop",model="m-0",workflow="asked"} 20.0' in text
    assert 'duraton_ai_tokens_total{app="other",model="other",workflow="other"} 100.0' in text


def test_a_model_without_a_price_is_told_of_once_a_table(caplog):
    unpriced = Unpriced()
    for _ in range(3):
        unpriced.note(metered(cost_unknown=True))
    unpriced.note(metered())
    unpriced.note(metered(model=None, cost_unknown=True))
    unpriced.note(Metered("shop", "asked", StepSpend(model="m", tokens=5, cost_unknown=True), "2"))
    unpriced.note(metered(unknown=True, cost_unknown=True))
    assert len(caplog.records) == 3
    for number in range(MODELS_MAX + 5):
        unpriced.note(metered(f"m-{number}", cost_unknown=True))
    assert len(caplog.records) == MODELS_MAX
