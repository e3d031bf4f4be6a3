"""The project's ceiling as people meet it: HTTP over an engine, and the command line."""

import asyncio
import json

import pytest
from tests.over_http import Http

from duraton import App, define_workflow
from duraton.testing import Engine
from duraton_api.cli import main
from duraton_api.errors import PendingError
from duraton_api.http.keys import ApiKey, digest_of
from duraton_api.node.node import Node
from duraton_api.node.settings import NodeSettings


@pytest.fixture(params=[1, 12])
async def engine(request):
    async def handle(ctx):
        await ctx.step.run("work", made.clock.sleep, 10)

    app = App("shop", [define_workflow("a", handle), define_workflow("b", handle)])
    async with Engine(app, partitions=request.param) as made:
        yield made


async def test_the_ceiling_is_read_and_set(engine):
    http = Http(engine)
    assert (await http.get("/project")).json() == {"ceiling": 0}
    put = (await http.put("/project", json={"ceiling": 50})).json()
    assert (put["ceiling"], put["pending"]) == (50, False) and put["version"] > 0
    assert (await http.get("/project")).json() == {"ceiling": 50}
    assert (await http.put("/project", json={"ceiling": 50})).json() == put
    lifted = (await http.put("/project", json={"ceiling": 0})).json()
    assert lifted["version"] > put["version"]
    assert (await http.get("/project")).json() == {"ceiling": 0}


async def test_it_holds_back_what_starts_once_it_is_answered(engine):
    http = Http(engine)
    assert (await http.put("/project", json={"ceiling": 2})).status_code == 200
    await engine.send_many([("a", {}), ("b", {}), ("a", {}), ("b", {}), ("b", {})])
    await engine.settle()
    assert len(engine.started) == 2
    await http.put("/project", json={"ceiling": 4})
    await engine.settle()
    assert len(engine.started) == 4
    await http.put("/project", json={"ceiling": 1})
    await engine.advance("10s")  # the four end, and one place is left
    assert len(engine.started) == 5


async def test_it_is_answered_once_every_partition_decides_by_it(engine):
    http = Http(engine)
    answer = (await http.put("/project", json={"ceiling": 3})).json()
    applied = {each.standing.registry for each in engine.core.processors}
    assert applied == {answer["version"]}


async def test_the_ceiling_outlives_a_crash(engine):
    await Http(engine).put("/project", json={"ceiling": 7})
    await engine.crash()
    assert (await Http(engine).get("/project")).json() == {"ceiling": 7}


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (b"{", "bad-json", "no JSON"),
        (b"", "bad-json", "no JSON"),
        (b"[]", "bad-json", "expected `object`"),
        (b"{}", "bad-json", "missing required field `ceiling`"),
        (b'{"ceiling":null}', "bad-json", "$.ceiling"),
        (b'{"ceiling":"50"}', "bad-json", "$.ceiling"),
        (b'{"ceiling":true}', "bad-json", "$.ceiling"),
        (b'{"ceiling":2.5}', "bad-json", "$.ceiling"),
        (b'{"ceiling":1e400}', "bad-json", ""),
        (b'{"ceiling":5,"limit":5}', "bad-json", "unknown field `limit`; its fields are ceiling"),
        (b'{"ceiling":-1}', "project-refused", "from 0 (no limit)"),
        (b'{"ceiling":1000000001}', "project-refused", "to 1000000000"),
        (b'{"ceiling":99999999999999999999}', "project-refused", "to 1000000000"),
    ],
)
async def test_what_cannot_work_is_refused_and_the_old_ceiling_stays(engine, body, code, says):
    http = Http(engine)
    await http.put("/project", json={"ceiling": 6})
    response = await http.put("/project", content=body)
    assert (response.status_code, response.json()["code"]) == (400, code)
    assert says in response.json()["detail"] and response.json()["advice"]
    assert (await http.get("/project")).json() == {"ceiling": 6}


async def test_other_ways_to_call_it_are_refused(engine):
    http = Http(engine)
    large = await http.put("/project", content=b'{"ceiling": 1}' + b" " * 5_000)
    assert (large.status_code, large.json()["code"]) == (413, "too-large")
    for call in (http.get, http.put):
        odd = await call("/project?ceiling=5")
        assert (odd.status_code, odd.json()["code"]) == (400, "bad-parameter")
    post = await http.post("/project", json={"ceiling": 1})
    assert (post.status_code, post.headers["allow"]) == (405, "GET, HEAD, PUT")


async def test_scopes(engine):
    keys = tuple(
        ApiKey(scope, digest_of(scope), frozenset({scope})) for scope in ("read", "act", "events")
    )
    http = Http(engine, keys=keys)

    async def status(call, key, **more):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return (await call("/project", headers=headers, **more)).status_code

    body = {"ceiling": 1}
    assert [await status(http.get, key) for key in ("read", "act", "events", None)] == [
        200, 403, 403, 401,
    ]  # fmt: skip
    assert [await status(http.put, key, json=body) for key in ("act", "read", "events", None)] == [
        200, 403, 403, 401,
    ]  # fmt: skip


async def test_nobody_waits_for_ever_until_a_version_is_in_force(engine):
    with pytest.raises(PendingError, match="not in force everywhere"):
        await engine.during(engine.core.applied(1_000, timeout_s=0.01))
    waiting = asyncio.create_task(engine.during(engine.core.applied(1_000)))
    for _ in range(5):  # until it waits
        await asyncio.sleep(0)
    await engine.crash()
    with pytest.raises(ConnectionError):
        await waiting


# The command line --------------------------------------------------------------------


@pytest.fixture
async def node(tmp_path, monkeypatch):
    for name in ("DURATON_API_KEY", "DURATON_KAFKA"):
        monkeypatch.delenv(name, raising=False)
    async with Node(NodeSettings(data=tmp_path / "data", port=0)) as made:
        monkeypatch.setenv("DURATON_URL", made.url)
        yield made


@pytest.fixture
def cli(capsys, node):
    async def run(*arguments, status=0):
        capsys.readouterr()
        assert await asyncio.to_thread(main.run, ["project", *arguments]) == status
        return capsys.readouterr()

    return run


async def test_the_ceiling_by_the_command_line(cli):
    assert (await cli("get")).out == "ceiling 0 (no limit)\n"
    assert "ceiling 1,500 is in force" in (await cli("set", "--ceiling", "1500")).err
    assert (await cli("get")).out == "ceiling 1,500\n"
    assert json.loads((await cli("get", "--json")).out) == {"ceiling": 1500}
    put = json.loads((await cli("set", "--ceiling", "0", "--json")).out)
    assert (put["ceiling"], put["pending"]) == (0, False)


async def test_wrong_usage_of_the_command_line(cli):
    assert "--ceiling" in (await cli("set", status=2)).err
    assert "--ceiling" in (await cli("set", "--ceiling", "many", status=2)).err
    assert "project-refused" in (await cli("set", "--ceiling", "-1", status=1)).err
    assert "project-refused" in (await cli("set", "--ceiling", "9" * 30, status=1)).err
