"""The HTTP API as a caller sees it, over a real view and a small node."""

import base64

import httpx
import msgspec
import pytest
from starlette.routing import Route
from tests.api.facts import APP, FLOW, Journal

from duraton_api.errors import PendingError
from duraton_api.http import HttpSettings, create_app
from duraton_api.http import metrics as metrics_module
from duraton_api.http.backend import (
    EventResult,
    PendingAnswer,
    Readiness,
    RunnerInfo,
    WorkflowAnswer,
    answer_of,
)
from duraton_api.http.guard import Guard
from duraton_api.http.keys import ApiKey, Keyring, digest_of
from duraton_api.http.metrics import Metrics
from duraton_api.view import View
from duraton_api.view.flow.reads import FlowCount
from duraton_engine.effects import EventAnswered, Reply
from duraton_schemas.catalog import schema_versions
from duraton_schemas.records import journal as j
from duraton_schemas.records.commands import CancelRun, PauseRun, RegisterApp, SetProject
from duraton_schemas.records.common import ErrorInfo, Scopes
from duraton_streams.errors import OverloadedError

LOCAL = "http://localhost"


class Node:
    """A node whose engine is the test: what it is asked is kept, what it answers is set."""

    def __init__(self, **settings):
        self.view = View(":memory:")
        self.metrics = Metrics()
        self.metrics.watch_view(lambda: self.view.queued)
        self.settings = HttpSettings(**settings)
        self.journal = Journal()
        self.posted, self.callers, self.commands = [], [], []
        self.results = None
        self.reply = None
        self.ready = Readiness(ready=True, partitions=[0])

    async def append_events(self, events):
        if isinstance(self.results, Exception):
            raise self.results
        self.posted += events
        self.callers += [event.caller for event in events]
        return self.results or [EventResult(event_id=event.id) for event in events]

    async def command(self, command):
        self.commands.append(command)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply or Reply(command.id, ok=True, run=getattr(command, "run", None))

    def commit(self):
        facts = self.journal.new()
        self.metrics.batch(0, facts)
        self.view.feed(0, facts)

    def journal_ends(self):
        return {0: len(self.journal.facts)}

    def now_ms(self):
        return self.journal.clock

    async def read_facts(self, partition, offsets):
        return [self.journal.facts[offset] for offset in offsets]

    def readiness(self):
        return self.ready

    def runners(self):
        return [
            RunnerInfo(
                name="w", boot="b", transport="connect", offers=[(APP, "a")], capacity=1, busy=0
            )
        ]


@pytest.fixture
def node():
    made = Node()
    yield made
    made.view.close()


def client(node, *, routes=(), base=LOCAL, peer="127.0.0.1", **kwargs):
    transport = httpx.ASGITransport(create_app(node, routes), client=(peer, 1))
    return httpx.AsyncClient(transport=transport, base_url=base, **kwargs)


def problem(response, status, code):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert (body["status"], body["code"]) == (status, code)
    assert body["type"] == f"urn:duraton:problem:{code}"
    assert body["title"] and body["advice"] and body["instance"].startswith("urn:uuid:")
    return body["detail"]


# Events --------------------------------------------------------------------


async def test_one_event(node):
    node.results = [
        EventResult(
            event_id="e1",
            answers=[
                WorkflowAnswer(app=APP, workflow="a", run_id="run_x"),
                WorkflowAnswer(app=APP, workflow="b", dropped=True),
            ],
        )
    ]
    event = {"name": "order.created", "data": {"n": 1}, "ts": "2026-01-01T00:00:00Z", "id": "e1"}
    response = await client(node).post("/events", json=event | {"dedupeId": "d", "subject": "s"})
    assert response.status_code == 200
    assert response.json() == {
        "eventId": "e1",
        "answers": [
            {"app": "shop", "workflow": "a", "runId": "run_x"},
            {"app": "shop", "workflow": "b", "dropped": True},
        ],
        "duplicateOf": None,
        "pending": [],
        "recorded": True,
    }
    (posted,) = node.posted
    assert (posted.id, posted.name, posted.data) == ("e1", "order.created", '{"n":1}')
    assert (posted.ts, posted.dedupe_id, posted.subject) == (1767225600000, "d", "s")
    assert (posted.caller.kind, posted.caller.id, posted.caller.root) == ("key", "dev", "key:dev")


async def test_many_events_answer_in_order(node):
    response = await client(node).post("/events", json=[{"name": "a"}, {"name": "b", "ts": 5}])
    assert response.status_code == 200
    assert [e["eventId"] for e in response.json()] == [e.id for e in node.posted]
    assert [e.name for e in node.posted] == ["a", "b"]
    assert len({e.id for e in node.posted}) == 2
    assert node.posted[1].ts == 5
    assert node.posted[0].data == "{}"


async def test_a_repeat_and_a_slow_workflow(node):
    node.results = [EventResult(event_id="e", duplicate_of="first")]
    response = await client(node).post("/events", json={"name": "a", "dedupeId": "d"})
    assert (response.status_code, response.json()["answers"]) == (200, [])
    assert response.json()["duplicateOf"] == "first"
    node.results = [EventResult(event_id="e", pending=[PendingAnswer(APP, "slow")])]
    response = await client(node).post("/events", json={"name": "a"})
    assert response.status_code == 202
    assert response.json()["pending"] == [{"app": "shop", "workflow": "slow"}]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"nonsense", "no JSON"),
        (b'{"name": "a"} extra', "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b'"text"', "object"),
        (b"[]", "no event"),
        (b"{}", "`name`"),
        (b'{"name": 5}', "$.name"),
        (b'{"name": ""}', "$.name"),
        (b'{"name": "a*"}', "$.name"),
        (b'{"name": "a\\u0000"}', "$.name"),
        (b'{"name": "a", "data": 5}', "$.data"),
        (b'{"name": "a", "data": null}', "$.data"),
        (b'{"name": "a", "date": {}}', "date"),
        (b'[{"name": "a"}, {"name": "b", "id": 7}]', "$[1].id"),
        (b'[{"name": "a"}, {"name": "b", "ts": "soon"}]', "$[1].ts"),
        (b'{"name": "a", "ts": -1}', "$.ts"),
        (b'{"name": "a", "ts": 1.5}', "$.ts"),
        (b'{"name": "a", "id": ""}', "$.id"),
        (b'{"name": "a", "data": {"x": NaN}}', "no JSON"),
        (b'{"name": "a", "data": ' + b'{"x":' * 5000 + b"1" + b"}" * 5001, "nested"),
        (b'{"name": "a", "data": ' + b'{"x":' * 900 + b"1" + b"}" * 901, "nested"),
        (b'{"name": "a", "data": ' + b'{"x":' * 201 + b"1234567890123456" + b"}" * 202, "nested"),
    ],
)
async def test_bad_events_are_refused_and_nothing_is_stored(node, body, says):
    response = await client(node).post("/events", content=body)
    assert says in problem(response, 400, "bad-json")
    assert node.posted == []


async def test_whole_numbers_beyond_exactness_are_refused(node):
    body = b'[{"name":"a"},{"name":"b","data":{"x":[{"id":9007199254740993}]}}]'
    response = await client(node).post("/events", content=body)
    assert "$[1].data.x[0].id" in problem(response, 400, "value-not-json")
    assert node.posted == []
    body = b'{"name":"b","data":{"id":"9007199254740993000","f":0.12345678901234567}}'
    assert (await client(node).post("/events", content=body)).status_code == 200


async def test_limits_of_a_post():
    node = Node(event_bytes_max=100, post_bytes_max=1000, post_events_max=3)
    http = client(node)
    response = await http.post("/events", json={"name": "a", "data": {"x": "y" * 200}})
    assert "$.data is 208 bytes, the limit is 100" in problem(response, 413, "too-large")
    response = await http.post("/events", json=[{"name": "a"}] * 4)
    assert "4 events" in problem(response, 413, "too-large")
    response = await http.post("/events", content=b" " * 1001)
    assert "1001 bytes" in problem(response, 413, "too-large")
    taken = []

    async def endless():
        for _ in range(1000):
            taken.append(1)
            yield b" " * 100

    response = await http.post("/events", content=endless())
    problem(response, 413, "too-large")
    assert len(taken) < 20
    assert node.posted == []
    node.view.close()


async def test_too_much_work_says_when_to_come_again(node):
    node.results = OverloadedError("100,000 events wait", retry_after_s=7)
    response = await client(node).post("/events", json={"name": "a"})
    problem(response, 429, "overloaded")
    assert response.headers["retry-after"] == "7"


async def test_events_are_listed_with_what_they_led_to(node):
    run = node.journal.completed_run()
    node.journal.event("nobody.listens", homes=0)
    node.commit()
    http = client(node)
    found = (await http.get("/events")).json()
    assert [(e["id"], e["name"]) for e in found["events"]] == [
        ("evt-2", "nobody.listens"),
        ("evt-1", FLOW),
    ]
    assert found["events"][1]["runs"] == [
        {"app": APP, "workflow": FLOW, "outcome": "run", "runId": run, "status": "completed"}
    ]
    assert found["events"][0]["why"]
    one = (await http.get("/events/evt-1")).json()
    assert one["data"] == {"orderId": 1}
    assert one["place"] == {"topic": "duraton.events", "partition": 0, "offset": 1}
    page = (await http.get("/events?limit=1")).json()
    page = (await http.get(f"/events?limit=1&cursor={page['cursor']}")).json()
    assert [e["id"] for e in page["events"]] == ["evt-1"]
    assert page["cursor"] is None
    problem(await http.get("/events/nothing"), 404, "event-unknown")


# Runs ----------------------------------------------------------------------


async def test_a_run_whole(node):
    run = node.journal.started()
    error = ErrorInfo(message="no", name="HttpError", stack="at x")
    node.journal.emit(
        j.StepFailed(
            run=run, step="s", n=0, kind="run", attempt=1, seen=0, error=error,
            retry_at=node.journal.clock + 1000,
        )
    )  # fmt: skip
    node.journal.emit(j.RunSuspended(run=run, seen=0))
    node.commit()
    http = client(node)
    body = (await http.get(f"/runs/{run}")).json()
    assert body["status"] == "waiting"
    assert body["waitingFor"] == {
        "kind": "backoff",
        "until": "2026-01-01T00:00:01.002Z",
        "step": "s",
        "reason": "no",
    }
    assert body["trigger"]["data"] == {"orderId": 1}
    assert body["steps"][0]["errors"][0]["error"]["name"] == "HttpError"
    assert body["spend"] == {
        "tokens": 0, "cost": 0.0, "knownCost": 0.0, "usageUnknown": False
    }  # fmt: skip
    (item,) = (await http.get("/runs")).json()["runs"]
    item["trigger"] |= {"data": {"orderId": 1}, "ts": body["trigger"]["ts"]}
    assert {k: body[k] for k in item} == item


async def test_runs_are_filtered_and_paged(node):
    done = [node.journal.completed_run() for _ in range(3)]
    waiting = node.journal.queued()
    node.commit()
    http = client(node)

    async def ids(query):
        response = await http.get(f"/runs?{query}")
        assert response.status_code == 200, response.text
        return [r["id"] for r in response.json()["runs"]]

    assert await ids("") == [waiting, *done[::-1]]
    assert await ids("status=completed") == done[::-1]
    assert await ids("status=queued,completed&limit=2") == [waiting, done[2]]
    assert await ids("status=failed") == []
    assert await ids(f"workflow={FLOW}&app={APP}") == [waiting, *done[::-1]]
    assert await ids("workflow=none") == []
    assert await ids("since=2030-01-01T00:00:00Z") == []
    assert await ids("until=2026-01-01T00:00:00.002Z") == done[:1]
    assert await ids(f"q={done[1]}") == [done[1]]
    assert await ids("consistency=eventual&limit=1") == [waiting]
    first = (await http.get("/runs?limit=3")).json()
    assert await ids(f"limit=3&cursor={first['cursor']}") == done[:1]


@pytest.mark.parametrize(
    "query",
    [
        "status=done",
        "stauts=failed",
        "limit=0",
        "limit=many",
        "limit=501",
        "cursor=zzz",
        "since=yesterday",
        "limit=1&limit=2",
        "kind=other",
        "consistency=maybe",
        "q=%ff",
    ],
)
async def test_bad_parameters_are_named(node, query):
    response = await client(node).get(f"/runs?{query}")
    name = query.split("=")[0]
    detail = problem(response, 400, "bad-parameter")
    assert name in detail or "query" in detail


async def test_unknown_runs(node):
    http = client(node)
    for path in ("/runs/nonsense", "/runs/run_0012345678901234567890ab", "/runs/run_00/journal"):
        problem(await http.get(path), 404, "run-unknown")


async def test_a_runs_journal(node):
    run = node.journal.completed_run(steps=2)
    node.journal.completed_run()
    node.commit()
    http = client(node)
    body = (await http.get(f"/runs/{run}/journal?limit=3")).json()
    assert [f["type"] for f in body["facts"]] == ["RunStarted", "StepCompleted", "StepCompleted"]
    first = body["facts"][0]
    assert (first["topic"], first["partition"], first["offset"], first["seq"]) == (
        "duraton.journal", 0, 1, 2,
    )  # fmt: skip
    assert first["fact"]["created"]["workflow"] == FLOW
    body = (await http.get(f"/runs/{run}/journal?limit=3&cursor={body['cursor']}")).json()
    assert [f["type"] for f in body["facts"]] == ["RunEnded"]
    assert body["cursor"] is None
    stood = (await http.get(f"/runs/{run}/journal?at=3")).json()["run"]
    assert (stood["status"], len(stood["steps"]), stood["output"]) == ("running", 1, None)
    assert stood["trigger"]["data"] == {"orderId": 1}
    now = (await http.get(f"/runs/{run}")).json()
    last = (await http.get(f"/runs/{run}/journal?at=99")).json()["run"]
    assert {**last, "journal": None} == {**now, "journal": None}
    assert "began at fact 2" in problem(
        await http.get(f"/runs/{run}/journal?at=1"), 400, "bad-parameter"
    )


async def test_acts(node):
    run = node.journal.queued()
    node.commit()
    http = client(node)
    node.reply = Reply("x", ok=True, run=run, status="paused")
    response = await http.post(f"/runs/{run}/pause")
    assert (response.status_code, response.json()) == (200, {"runId": run, "status": "paused"})
    assert isinstance(node.commands[0], PauseRun)
    await http.post(f"/runs/{run}/cancel", json={"reason": "a mistake"})
    cancel = node.commands[1]
    assert isinstance(cancel, CancelRun)
    assert (cancel.run, cancel.reason, cancel.caller.id) == (run, "a mistake", "dev")
    node.reply = Reply("x", ok=False, code="run-not-paused", message="it is not paused")
    assert "not paused" in problem(await http.post(f"/runs/{run}/resume"), 409, "run-not-paused")
    node.reply = PendingError("later")
    response = await http.post(f"/runs/{run}/resume")
    assert (response.status_code, response.json()) == (202, {"runId": run, "pending": True})
    response = await http.post(f"/runs/{run}/cancel", json={"because": 1})
    problem(response, 400, "bad-json")


async def test_acts_on_ended_and_unknown_runs(node):
    run = node.journal.completed_run()
    node.commit()
    node.reply = Reply("x", ok=False, code="run-not-active", message="not active")
    http = client(node)
    assert "completed" in problem(await http.post(f"/runs/{run}/cancel"), 409, "run-ended")
    other = run[:-1] + ("0" if run[-1] != "0" else "1")
    problem(await http.post(f"/runs/{other}/cancel"), 404, "run-unknown")


async def test_later_calls_say_so(node):
    problem(await client(node).get("/stream"), 501, "not-yet")


# Registrations -------------------------------------------------------------


async def test_register_an_app(node):
    http = client(node)
    node.reply = Reply("x", ok=True, version=4, warnings=("a and b",))
    body = {"name": APP, "workflows": [{"name": "a", "retry": {"maxAttempts": 3}}]}
    response = await http.put(f"/apps/{APP}", json=body)
    assert response.json() == {
        "app": APP,
        "version": 4,
        "warnings": ["a and b"],
        "pending": False,
    }
    (command,) = node.commands
    assert isinstance(command, RegisterApp)
    assert msgspec.json.decode(command.body)["workflows"][0]["retry"]["maxAttempts"] == 3


@pytest.mark.parametrize(
    "body",
    [
        {"name": "other", "workflows": []},
        {"name": APP, "workflows": [{"name": "a", "retry": {"maxAttempts": 0}}]},
        {"name": APP, "workflows": [{"name": "a"}, {"name": "a"}]},
        {"name": APP, "workflow": []},
    ],
)
async def test_bad_registrations_are_refused_whole(node, body):
    problem(await client(node).put(f"/apps/{APP}", json=body), 400, "options-refused")
    assert node.commands == []


async def test_workflows(node):
    node.journal.register(1, ["a", "b"])
    node.commit()
    http = client(node)
    found = (await http.get("/workflows")).json()["workflows"]
    assert [(w["name"], w["active"], w["runners"]) for w in found] == [
        ("a", True, ["w"]),
        ("b", True, []),
    ]
    assert (await http.get(f"/workflows/{APP}/a")).json()["options"] == {"name": "a"}
    problem(await http.get(f"/workflows/{APP}/z"), 404, "workflow-unknown")
    flow = (await http.get("/flow-state?workflow=a")).json()
    assert flow == {"debounce": [], "batch": [], "concurrency": {"limit": 0, "inUse": 0}}
    assert (await http.get("/runners")).json()["runners"][0]["name"] == "w"


async def test_the_project(node):
    http = client(node)
    node.reply = Reply("x", ok=True, version=4)
    response = await http.put("/project", json={"ceiling": 9})
    assert response.json() == {"ceiling": 9, "version": 4, "pending": False}
    (command,) = node.commands
    assert isinstance(command, SetProject)
    assert (command.ceiling, command.caller.id) == (9, "dev")
    node.reply = PendingError("later")
    response = await http.put("/project", json={"ceiling": 9})
    assert response.status_code == 202
    assert response.json() == {"ceiling": 9, "version": 0, "pending": True}
    node.reply = Reply("x", ok=False, code="project-refused", message="no such ceiling")
    problem(await http.put("/project", json={"ceiling": 9}), 409, "project-refused")


async def test_flow_state_in_detail(node):
    node.journal.register(1, [FLOW])
    node.journal.event()
    created = node.journal.created(scopes=Scopes(throttle="k\0v"))
    queued = j.RunQueued(run=node.journal.run_id("e"), created=created, gate="throttle\0k\0v")
    queued.due = node.journal.clock + 5_000
    node.journal.emit(queued)
    node.commit()
    http = client(node)
    found = (await http.get(f"/flow-state/detail?workflow={FLOW}&app={APP}&limit=5")).json()
    run = {"id": queued.run, "status": "queued", "createdAt": "2026-01-01T00:00:00.002Z"}
    assert found["scopes"] == [
        {
            "app": APP,
            "workflow": FLOW,
            "control": "throttle",
            "key": "k",
            "value": "v",
            "waiting": 1,
            "line": [run],
            "nextStartAt": "2026-01-01T00:00:05.002Z",
        }
    ]
    assert [(each["workflow"], each["deduped"]) for each in found["starts"]] == [(FLOW, 0)]
    assert found["cursor"] is None
    assert (await http.get("/flow-state/detail?control=batch")).json()["scopes"] == []
    problem(await http.get("/flow-state/detail?cursor=x"), 400, "bad-parameter")
    problem(await http.get("/flow-state/detail?control=rate_limit"), 400, "bad-parameter")
    problem(await http.get("/flow-state/detail?limit=0"), 400, "bad-parameter")
    text = (await http.get("/metrics")).text
    labels = f'app="{APP}",control="throttle",workflow="{FLOW}"'
    assert f"duraton_runs_waiting{{{labels}}} 1.0" in text


def test_gauges_of_flow_control_are_bounded(monkeypatch):
    monkeypatch.setattr(metrics_module, "FLOW_SERIES_MAX", 2)
    metrics = Metrics()
    metrics.flow([FlowCount("a", f"w{n}", "windows", "", 2) for n in range(5)])
    metrics.flow([FlowCount("a", f"w{n}", "windows", "", 1) for n in range(4)])
    shown = [line for line in metrics.text().decode().splitlines() if "windows{" in line]
    assert shown == [
        'duraton_debounce_windows{app="a",workflow="w0"} 1.0',
        'duraton_debounce_windows{app="a",workflow="w1"} 1.0',
        'duraton_debounce_windows{app="other",workflow="other"} 2.0',
    ]


# The node ------------------------------------------------------------------


async def test_health_readiness_metrics(node):
    node.journal.completed_run()
    node.commit()
    http = client(node)
    assert (await http.get("/healthz")).json() == {"status": "alive"}
    assert (await http.get("/readyz")).status_code == 200
    node.ready = Readiness(ready=False, reasons=["partition 0 is recovering"])
    response = await http.get("/readyz")
    assert (response.status_code, response.json()["reasons"]) == (
        503,
        ["partition 0 is recovering"],
    )
    text = (await http.get("/metrics")).text
    assert "duraton_events_recorded_total 1.0" in text
    assert 'duraton_runs_ended_total{status="completed"} 1.0' in text
    assert "duraton_view_queued_facts 4.0" in text
    assert 'duraton_http_requests_total{status="2xx"}' in text


async def test_schemas_in_the_registrys_form(node):
    http = client(node)
    version = schema_versions()[0]
    found = (await http.get(f"/schemas/ids/{version.id}")).json()
    assert msgspec.json.decode(found["schema"]) == version.schema
    assert version.subject in (await http.get("/subjects")).json()
    assert 1 in (await http.get(f"/subjects/{version.subject}/versions")).json()
    latest = (await http.get(f"/subjects/{version.subject}/versions/latest")).json()
    assert latest["subject"] == version.subject
    for path in ("/schemas/ids/999999", "/schemas/ids/x", "/subjects/none/versions/1"):
        response = await http.get(path)
        problem(response, 404, "schema-missing")
        assert response.json()["error_code"] == 40403


async def test_paths_and_methods_that_do_not_exist(node):
    http = client(node)
    problem(await http.get("/nothing"), 404, "not-found")
    response = await http.delete("/events")
    problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "GET, HEAD, POST"
    assert (await http.head("/runs")).status_code == 200


async def test_a_bug_shows_no_inside(node, caplog):
    async def broken(request):
        raise RuntimeError("secret inside")

    response = await client(node, routes=[Route("/broken", broken)]).get("/broken")
    detail = problem(response, 500, "internal")
    assert "secret" not in response.text
    assert "instance" in detail
    assert "secret inside" in caplog.text
    assert response.json()["instance"] in caplog.text


# Who calls -----------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        {"peer": "10.1.2.3"},
        {"peer": "nonsense"},
        {"base": "http://evil.example"},
        {"headers": {"origin": "https://evil.example"}},
        {"headers": {"origin": "null"}},
        {"headers": {"sec-fetch-site": "cross-site"}},
    ],
)
async def test_without_keys_only_this_machine_may_call(node, how):
    response = await client(node, **how).post("/events", json={"name": "a"})
    problem(response, 403, "not-local")
    assert node.posted == []


@pytest.mark.parametrize("base", ["http://127.0.0.1:8288", "http://[::1]:1", "http://LOCALHOST"])
async def test_this_machine_by_its_names(node, base):
    http = client(node, base=base, headers={"origin": "http://localhost:3000"})
    assert (await http.post("/events", json={"name": "a"})).status_code == 200


async def test_keys_and_scopes():
    keys = (
        ApiKey("sender", digest_of("s3cret"), frozenset({"events"})),
        ApiKey("boss", digest_of("b0ss")),
    )
    node = Node(keys=keys)
    http = client(node, base="http://duraton.example", peer="10.1.2.3")

    def bearer(secret):
        return {"authorization": f"Bearer {secret}"}

    response = await http.get("/runs")
    problem(response, 401, "unauthorized")
    assert response.headers["www-authenticate"].startswith("Bearer")
    problem(await http.get("/runs", headers=bearer("wrong")), 401, "unauthorized")
    assert "'read'" in problem(await http.get("/runs", headers=bearer("s3cret")), 403, "forbidden")
    event = {"name": "a"}
    assert (await http.post("/events", json=event, headers=bearer("s3cret"))).status_code == 200
    assert node.callers[0].id == "sender"
    assert (await http.get("/runs", headers=bearer("b0ss"))).status_code == 200
    assert (await http.get("/healthz")).status_code == 200
    basic = {"authorization": "Basic " + base64.b64encode(b"any:b0ss").decode()}
    assert (await http.get("/subjects", headers=basic)).status_code == 200
    problem(await http.get("/nothing"), 401, "unauthorized")
    node.view.close()


@pytest.mark.parametrize(("scope", "let_in"), [("runner", True), ("admin", True), ("read", False)])
async def test_a_runner_needs_a_key_that_may_execute(scope, let_in):
    came, said = [], []

    async def inside(scope, receive, send):
        came.append(scope["duraton.principal"].caller.id)

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        said.append(message)

    keyring = Keyring([ApiKey("one", digest_of("s"), frozenset({scope}))])
    guard = Guard(inside, keyring=keyring, metrics=Metrics())
    headers = [(b"authorization", b"Bearer s")]
    await guard({"type": "websocket", "path": "/connect", "headers": headers}, receive, send)
    assert came == (["one"] if let_in else [])
    assert let_in or (said[0]["code"], "'runner'" in said[0]["reason"]) == (1008, True)


def test_answers_as_the_engine_gives_them():
    def answer(outcome, run=None, error=None, blocker=None):
        effect = EventAnswered("p/0", APP, FLOW, outcome, run, error, blocker)
        return msgspec.to_builtins(answer_of(effect))

    base = {"app": APP, "workflow": FLOW}
    assert answer("run", "r") == {**base, "runId": "r"}
    assert answer("deduped") == {**base, "deduped": True}
    assert answer("skipped", blocker="r") == {**base, "skipped": True, "blockedBy": "r"}
    assert answer("joined", "r") == {**base, "joined": True, "runId": "r"}
    refused = answer("refused", None, ErrorInfo(message="full", code="T7103"))
    assert refused == {**base, "refused": "T7103", "error": "full"}
