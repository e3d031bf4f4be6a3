"""Acts on ended runs and on many runs as a caller sees them, over a whole engine."""

import httpx
import pytest

from duraton import define_workflow
from duraton_api.errors import PendingError
from duraton_api.http import HttpSettings, create_app
from duraton_api.http.keys import ApiKey, digest_of
from duraton_api.http.metrics import Metrics
from duraton_api.node.backend import NodeBackend
from duraton_schemas.records.commands import CarryRun

STRANGER = "run_0012345678901234567890ab"


class Http:
    """Calls an engine under test by HTTP."""

    def __init__(self, engine, *keys):
        self.engine = engine
        self.backend = NodeBackend(engine.core, Metrics(), HttpSettings(keys=keys))
        transport = httpx.ASGITransport(create_app(self.backend), client=("127.0.0.1", 1))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    async def post(self, path, body=None, **more):
        return await self.engine.during(self.client.post(path, json=body, **more))

    async def get(self, path):
        return (await self.engine.during(self.client.get(path))).json()


def problem(response, status, code):
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert (response.status_code, response.json()["code"]) == (status, code)
    return response.json()["detail"]


class Till:
    """A workflow whose second step can be broken."""

    def __init__(self):
        self.broken = True
        self.flow = define_workflow("order", self.handle, on_failure=self.undo)

    async def handle(self, ctx):
        await ctx.step.run("reserve", lambda: 1)
        return await ctx.step.run("charge", self.charge, ctx.event.data["n"])

    async def charge(self, n):
        if self.broken:
            raise ValueError("declined")
        return n

    async def undo(self, ctx):
        await ctx.step.run("undo", lambda: None)

    async def failed(self, engine, n=1):
        [answer] = await engine.send("order", {"n": n})
        await engine.settle()
        return answer.run_id


@pytest.fixture
def till():
    return Till()


async def test_replay_and_retry(duraton, till):
    async with duraton(till.flow) as engine:
        run, http = await till.failed(engine), Http(engine)
        till.broken = False
        response = await http.post(f"/runs/{run}/replay")
        body = response.json()
        assert (response.status_code, body) == (
            200,
            {"runId": body["runId"], "replayOf": run, "status": "running"},
        )
        await engine.settle()
        new = await http.get(f"/runs/{body['runId']}")
        assert (new["status"], new["replayOf"], new["replayStep"]) == ("completed", run, None)
        assert new["caller"]["id"] == "dev"

        asked = {"step": "charge", "input": [7], "dedupeId": "d"}
        first = (await http.post(f"/runs/{run}/retry-from-step", asked)).json()
        await engine.settle()
        again = (await http.post(f"/runs/{run}/retry-from-step", asked)).json()
        assert again == {
            "runId": first["runId"],
            "replayOf": run,
            "status": "completed",
            "repeated": True,
        }
        new = await http.get(f"/runs/{first['runId']}")
        assert (new["output"], new["replayOf"], new["replayStep"]) == (7, run, "charge")
        assert [(s["id"], s["carried"]) for s in new["steps"]] == [
            ("reserve", True),
            ("charge", False),
        ]
        old = await http.get(f"/runs/{run}")
        assert [(r["id"], r["step"], r["status"]) for r in old["replays"]] == [
            (body["runId"], None, "completed"),
            (first["runId"], "charge", "completed"),
        ]
        # Its event led to the one run; what repeats it stands with that.
        event = await http.get(f"/events/{old['trigger']['eventId']}")
        assert [r["runId"] for r in event["runs"]] == [run]
        listed = await http.get("/runs?status=completed")
        assert {r["replayOf"] for r in listed["runs"]} == {run}


async def test_a_retrys_journal_shows_what_it_began_with(duraton, till):
    async with duraton(till.flow) as engine:
        run, http = await till.failed(engine), Http(engine)
        till.broken = False
        answer = await http.post(f"/runs/{run}/retry-from-step", {"step": "charge"})
        new = answer.json()["runId"]
        await engine.settle()
        page = await http.get(f"/runs/{new}/journal")
        assert [fact["type"] for fact in page["facts"]] == [
            "RunCarried",
            "RunStarted",
            "StepCompleted",
            "RunEnded",
        ]
        assert [step["step"] for step in page["facts"][0]["fact"]["steps"]] == ["reserve"]
        now = await http.get(f"/runs/{new}")
        for fact, steps in ((1, ["reserve"]), (3, ["reserve", "charge"])):
            seq = page["facts"][fact]["seq"]
            then = (await http.get(f"/runs/{new}/journal?at={seq}"))["run"]
            assert [step["id"] for step in then["steps"]] == steps
            assert then["steps"][0] == now["steps"][0]


async def test_what_is_refused(duraton, till):
    async with duraton(till.flow) as engine:
        run, http = await till.failed(engine), Http(engine)
        problem(await http.post(f"/runs/{STRANGER}/replay"), 404, "run-unknown")
        problem(await http.post("/runs/nonsense/replay"), 404, "run-unknown")
        handler = (await http.get(f"/runs/{run}"))["onFailureRun"]
        assert run in problem(await http.post(f"/runs/{handler}/replay"), 409, "replay-of-handler")

        retry = f"/runs/{run}/retry-from-step"
        detail = problem(await http.post(retry, {"step": "ship"}), 404, "step-unknown")
        assert detail == "the run has called no step 'ship'; it has called 'reserve', 'charge'"
        for body, code in (
            ({}, "bad-json"),
            ({"step": 1}, "bad-json"),
            ({"step": "charge", "from": 1}, "bad-json"),
            ({"step": ""}, "bad-parameter"),
            ({"step": "charge", "n": -1}, "bad-parameter"),
            ({"step": "charge", "input": "text"}, "bad-parameter"),
            ({"step": "charge", "input": [2**60]}, "value-not-json"),
            ({"step": "charge", "dedupeId": ""}, "bad-parameter"),
        ):
            problem(await http.post(retry, body), 400, code)
        large = {"step": "charge", "input": ["x" * (1 << 20)]}
        problem(await http.post(retry, large), 413, "value-too-large")
        problem(await http.post(f"/runs/{run}/replay", {"step": "charge"}), 400, "bad-json")
        problem(await http.post(f"/runs/{run}/replay?step=charge"), 400, "bad-parameter")

        till.broken = False
        new = (await http.post(f"/runs/{run}/replay")).json()["runId"]
        detail = problem(await http.post(f"/runs/{new}/replay"), 409, "run-not-ended")
        assert "is running; cancel it first, or wait until it ends" in detail


async def test_a_run_whose_event_is_gone(duraton, till):
    async with duraton(till.flow) as engine:
        run, http = await till.failed(engine), Http(engine)
        # As a view shows it that was made anew after retention took the event.
        engine.core.view.drain()
        engine.core.view._store.db.execute("DELETE FROM events")
        problem(await http.post(f"/runs/{run}/replay"), 410, "run-gone")
        job = (await http.post("/runs/bulk-replay", {"status": "failed"})).json()
        await engine.settle()
        job = await http.get(f"/jobs/{job['id']}")
        assert [(each["run"], each["code"]) for each in job["refusals"]] == [(run, "run-gone")]


async def test_an_act_that_is_recorded_and_not_answered(duraton, till):
    async with duraton(till.flow) as engine:
        run, http = await till.failed(engine), Http(engine)
        command = http.backend.command

        async def late(made):
            reply = await command(made)
            if isinstance(made, CarryRun):
                return reply
            raise PendingError("later")

        http.backend.command = late
        response = await http.post(f"/runs/{run}/replay")
        assert (response.status_code, response.json()) == (
            202,
            {"replayOf": run, "pending": True},
        )
        [new] = (await http.get(f"/runs/{run}"))["replays"]
        assert new["status"] == "running"


async def test_many_runs(duraton, till):
    async with duraton(till.flow) as engine:
        runs, http = [await till.failed(engine, n) for n in range(3)], Http(engine)
        till.broken = False
        dry = (await http.post("/runs/bulk-replay?dryRun=true", {"status": "failed"})).json()
        assert (dry["dryRun"], dry["act"], dry["total"]) == (True, "replay", 3)
        assert [run["id"] for run in dry["sample"]] == runs
        assert await http.get("/jobs") == {"jobs": [], "cursor": None}

        response = await http.post("/runs/bulk-replay", {"status": "failed", "workflow": "order"})
        job = response.json()
        assert (response.status_code, job["status"], job["total"]) == (202, "running", 3)
        assert job["filter"] == {"status": "failed", "workflow": "order"}
        assert job["caller"]["id"] == "dev"
        await engine.settle()
        done = await http.get(f"/jobs/{job['id']}")
        assert (done["status"], done["done"], done["refused"]) == ("completed", 3, 0)
        assert done["endedAt"] and done["refusals"] == []
        problem(await http.post(f"/jobs/{job['id']}/stop"), 409, "job-ended")
        problem(await http.post("/jobs/job_nope/stop"), 404, "job-unknown")
        assert (await http.get("/jobs/job_nope"))["code"] == "job-unknown"

        cancelled = (await http.post("/runs/bulk-cancel", {"app": "test", "reason": "x"})).json()
        await engine.settle()
        assert (cancelled["act"], cancelled["total"], cancelled["reason"]) == ("cancel", 0, "x")
        page = await http.get("/jobs?limit=1")
        assert [each["id"] for each in page["jobs"]] == [cancelled["id"]]
        page = await http.get(f"/jobs?limit=1&cursor={page['cursor']}")
        assert ([each["id"] for each in page["jobs"]], page["cursor"]) == ([job["id"]], None)
        assert len((await http.get("/jobs?status=completed,stopped"))["jobs"]) == 2
        assert (await http.get("/jobs?status=running"))["jobs"] == []


async def test_acts_on_many_that_are_refused(duraton, till):
    async with duraton(till.flow) as engine:
        http = Http(engine)
        for path, body, code in (
            ("/runs/bulk-replay", None, "bad-parameter"),
            ("/runs/bulk-replay", {"status": "running"}, "bad-parameter"),
            ("/runs/bulk-replay", {"status": "failed", "reason": "x"}, "bad-parameter"),
            ("/runs/bulk-replay", {"kind": "all"}, "bad-json"),
            ("/runs/bulk-replay?status=failed", {"status": "failed"}, "bad-parameter"),
            ("/runs/bulk-replay?dryRun=maybe", {"status": "failed"}, "bad-parameter"),
            ("/runs/bulk-cancel", {"status": "failed"}, "bad-parameter"),
            ("/runs/bulk-cancel", {"app": "a", "reason": "x" * 1_001}, "bad-parameter"),
        ):
            problem(await http.post(path, body), 400, code)
        assert (await http.get("/jobs?status=late"))["code"] == "bad-parameter"


async def test_they_need_the_scope_to_act(duraton, till):
    async with duraton(till.flow) as engine:
        run = await till.failed(engine)
        http = Http(engine, ApiKey("eyes", digest_of("s3cret"), frozenset({"read"})))
        headers = {"authorization": "Bearer s3cret"}
        for path in (
            f"/runs/{run}/replay",
            f"/runs/{run}/retry-from-step",
            "/runs/bulk-replay",
            "/runs/bulk-cancel",
            "/jobs/j/stop",
        ):
            problem(await http.post(path, {}, headers=headers), 403, "forbidden")
