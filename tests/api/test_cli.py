"""The command line against a real engine on a free port, and against none."""

import asyncio
import json
import socket

import pytest

from duraton import (
    App,
    BatchConfig,
    ConcurrencyConfig,
    DebounceConfig,
    IdempotencyConfig,
    NonRetriableError,
    connect,
    define_workflow,
)
from duraton_api.cli import main, show
from duraton_api.cli.timeline import moments, reason_of, span
from duraton_api.node.node import Node
from duraton_api.node.settings import NodeSettings
from duraton_schemas.records.public import Event
from duraton_streams.state.rocksdb import RocksStore


async def handle(ctx):
    paid = await ctx.step.run("charge", lambda: charge(ctx.event.data))
    if ctx.event.data.get("wait"):
        await ctx.step.wait_for_event("approval", "order.approved", timeout="1h")
    return paid


def charge(data):
    if data.get("broken"):
        raise NonRetriableError("the card is \x1b[31mrefused")
    return {"receipt": f"r-{data.get('orderId')}"}


SHOP = App("shop", workflows=[define_workflow("order.created", handle)])


class Cli:
    """Runs commands in a thread, beside the engine on the test's loop."""

    def __init__(self, capsys, *more):
        self.capsys, self.more = capsys, more

    async def __call__(self, *arguments, status=0):
        self.capsys.readouterr()
        got = await asyncio.to_thread(main.run, [*arguments, *self.more])
        out, err = self.capsys.readouterr()
        assert got == status, (out, err)
        assert "Traceback" not in err
        self.err = err
        return out


@pytest.fixture
async def node(tmp_path, monkeypatch):
    for name in ("DURATON_URL", "DURATON_API_KEY", "DURATON_KAFKA", "DURATON_DATA"):
        monkeypatch.delenv(name, raising=False)
    async with Node(NodeSettings(data=tmp_path / "data", port=0)) as made:
        monkeypatch.setenv("DURATON_URL", made.url)
        monkeypatch.setenv("DURATON_DATA", str(tmp_path / "data"))
        yield made


@pytest.fixture
async def runner(node):
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(
        connect(SHOP, node.url, name="till", stop=stop, ready=lambda _: ready.set())
    )
    await asyncio.wait_for(ready.wait(), 10)
    yield
    stop.set()
    await task


@pytest.fixture
def cli(capsys):
    return Cli(capsys)


async def ended(cli, run):
    """The run once it has ended; the read waits for what is committed, so this is quick."""
    while True:
        found = json.loads(await cli("runs", "get", run, "--json"))
        if found["endedAt"]:
            return found
        await asyncio.sleep(0)


async def sent(cli, data, *more):
    answer = json.loads(await cli("send", "order.created", json.dumps(data), "--json", *more))
    return answer["answers"][0]["runId"]


async def test_an_event_is_sent_and_its_run_is_shown(cli, runner):
    out = await cli("send", "order.created", '{"orderId": 7}')
    assert "shop/order.created  run" in out and "event evt_" in cli.err
    run = out.split()[-1]
    await ended(cli, run)

    out = await cli("runs", "list")
    header, row = out.splitlines()
    assert header.split() == ["ID", "WORKFLOW", "STATUS", "CREATED", "TOOK", "NOTE"]
    assert row.startswith(f"{run}  shop/order.created  completed")

    out = await cli("runs", "get", run)
    assert f"{run}  shop/order.created  completed" in out
    assert '"orderId": 7' in out and "started at till" in out
    assert 'charge completed: {"receipt": "r-7"}' in out


async def test_flow_state_is_shown_to_people(cli, node):
    go, stop, ready = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(ctx):
        await ctx.step.run("work", go.wait)

    flows = [
        define_workflow("busy", work, concurrency=ConcurrencyConfig(1, key="k")),
        define_workflow("late", work, debounce=DebounceConfig("1h", key="k")),
        define_workflow("many", work, batch=BatchConfig(9, "1h")),
        define_workflow("once", work, idempotency=IdempotencyConfig("k", "1h")),
    ]
    app = App("shop", workflows=flows)
    task = asyncio.create_task(connect(app, node.url, stop=stop, ready=lambda _: ready.set()))
    await asyncio.wait_for(ready.wait(), 10)
    for name in ("busy", "busy", "late", "many", "many", "once", "once"):
        await cli("send", name, '{"k": "a"}')

    out = await cli("flow-state")
    first, _, header, debounce, batch = out.splitlines()
    assert first == "2 runs execute"
    assert header.split() == ["WORKFLOW", "CONTROL", "HOLDS", "WHEN"]
    assert debounce.startswith("shop/late  debounce  1 window  the next fires 20")
    assert batch.startswith("shop/many  batch     2 events  the oldest since 20")
    state = json.loads(await cli("flow-state", "--workflow", "late", "--json"))
    assert (len(state["debounce"]), state["batch"]) == (1, [])

    out = await cli("flow-state", "--detail")
    rows = {row.split()[1]: row for row in out.splitlines()[1:]}
    assert "k=a" in rows["concurrency"] and "1 of 1 runs execute" in rows["concurrency"]
    [queued] = json.loads(await cli("runs", "list", "--status", "queued", "--json"))["runs"]
    assert f"1 ({queued['id']})" in rows["concurrency"]
    assert "1 event" in rows["debounce"] and "open for" in rows["debounce"]
    out = await cli("flow-state", "--detail", "--limit", "1")
    assert len(out.splitlines()) == 2 and "the first 1" in cli.err
    out = await cli("flow-state", "--detail", "--workflow", "once")
    assert out.splitlines()[-1] == "shop/once starts: 1 deduped"
    detail = json.loads(await cli("flow-state", "--detail", "--control", "batch", "--json"))
    assert [scope["count"] for scope in detail["scopes"]] == [2]
    await cli("flow-state", "--app", "shop", status=2)

    out = await cli("runs", "get", queued["id"])
    told = "waits     waits for a place of its concurrency, which 1 run may have, where k is a"
    assert told in out
    go.set()
    stop.set()
    await task


async def test_lists_are_filtered_and_paged(cli, runner):
    good = await sent(cli, {"orderId": 1})
    bad = await sent(cli, {"broken": True})
    await ended(cli, good)
    await ended(cli, bad)
    failed = json.loads(await cli("runs", "list", "--status", "failed", "--json"))
    assert [run["id"] for run in failed["runs"]] == [bad]
    both = json.loads(await cli("runs", "list", "--since", "1h", "--app", "shop", "--json"))
    assert [run["id"] for run in both["runs"]] == [bad, good]
    one = json.loads(await cli("runs", "list", "--limit", "1", "--json"))
    assert len(one["runs"]) == 1 and one["cursor"]
    assert await cli("runs", "list", "--workflow", "nothing") == "" and "no runs" in cli.err


async def test_a_failed_run_says_why_and_cannot_steer_the_terminal(cli, runner):
    run = await sent(cli, {"broken": True})
    await ended(cli, run)
    out = await cli("runs", "get", run)
    assert "charge failed, attempt 1: NonRetriableError: the card is" in out
    assert "\x1b" not in out and "charge(ctx.event.data)" in out
    assert "NonRetriableError" in await cli("runs", "list")


async def test_a_waiting_run_is_paused_resumed_and_cancelled(cli, runner):
    run = await sent(cli, {"wait": True})
    while "waits for order.approved (approval)" not in await cli("runs", "get", run):  # noqa: ASYNC110 as in `ended`
        await asyncio.sleep(0)
    assert await cli("runs", "pause", run) == f"{run}  paused\n"
    assert "paused by manual" in await cli("runs", "get", run)
    await cli("runs", "resume", run)
    answer = json.loads(await cli("runs", "cancel", run, "--reason", "wrong customer", "--json"))
    assert answer == {"runId": run, "status": "cancelled"}
    await cli("runs", "cancel", run, status=1)
    assert "(run-ended)" in cli.err
    assert "wrong customer" in await cli("runs", "get", run)


async def test_a_failed_run_is_replayed_and_retried(cli, runner):
    run = await sent(cli, {"broken": True})
    await ended(cli, run)
    out = await cli("runs", "replay", run)
    new, status = out.split()[:2]
    assert out.endswith(f"replays {run}\n") and status == "running"
    await ended(cli, new)
    assert f"replays   {run}" in await cli("runs", "get", new)

    again = ("runs", "retry-from-step", run, "charge", "--dedupe-id", "d", "--json")
    first, second = json.loads(await cli(*again)), json.loads(await cli(*again))
    assert first["runId"] == second["runId"] and second["repeated"]
    await ended(cli, first["runId"])
    assert f"replays   {run}, from step charge" in await cli("runs", "get", first["runId"])
    assert f"replayed  {first['runId']}  failed, from step charge" in await cli("runs", "get", run)

    await cli("runs", "retry-from-step", run, "ship", status=1)
    assert "it has called 'charge'" in cli.err and "(step-unknown)" in cli.err
    # A lambda takes no arguments, which is said as the run's error.
    edited = json.loads(
        await cli("runs", "retry-from-step", run, "charge", "--input", "[1]", "--json")
    )
    assert (await ended(cli, edited["runId"]))["error"]["code"] == "step-input-refused"


async def test_many_runs_are_acted_on_and_the_jobs_followed(cli, runner):
    for n in range(3):
        await ended(cli, await sent(cli, {"broken": True, "n": n}))
    out = await cli("runs", "bulk-replay", "--status", "failed", "--since", "1h", "--dry-run")
    assert len(out.splitlines()) == 4 and "3 runs" in cli.err
    out = await cli("runs", "bulk-replay", "--status", "failed", "--since", "1h")
    job = out.split()[0]
    assert job.startswith("job_") and f"duraton jobs get {job}" in cli.err
    while json.loads(await cli("jobs", "get", job, "--json"))["status"] == "running":  # noqa: ASYNC110 as in `ended`
        await asyncio.sleep(0)
    shown = await cli("jobs", "get", job)
    assert "3 of 3 done, 0 refused" in shown and "filter    status failed, since 20" in shown
    header, row = (await cli("jobs", "list")).splitlines()
    assert header.split() == ["ID", "ACT", "STATUS", "CREATED", "DONE", "REFUSED", "TOTAL"]
    assert row.split()[:3] == [job, "replay", "completed"]
    await cli("jobs", "stop", job, status=1)
    assert "(job-ended)" in cli.err
    await cli("jobs", "get", "job_nope", status=1)
    assert "(job-unknown)" in cli.err

    run = await sent(cli, {"wait": True})
    cancelled = json.loads(
        await cli("runs", "bulk-cancel", "--app", "shop", "--reason", "closed", "--json")
    )
    assert cancelled["act"] == "cancel" and cancelled["total"] >= 1
    assert (await ended(cli, run))["status"] == "cancelled"


async def test_a_repeat_and_an_event_that_nobody_takes_are_told_apart(cli, runner):
    await cli("send", "order.created", "{}", "--dedupe-id", "d1", "--subject", "s", "--id", "e1")
    assert await cli("send", "order.created", "{}", "--dedupe-id", "d1") == ""
    assert "a repeat" in cli.err
    assert await cli("send", "nothing.of.ours") == ""
    assert "no workflow is started" in cli.err


async def test_data_comes_from_stdin(cli, node, monkeypatch):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO('{"a": 1}'))
    await cli("send", "x", "-")
    record = json.loads((await cli("log", "dump", "--topic", "events", "--json")).splitlines()[0])
    assert record["type"] == "Event" and json.loads(record["record"]["data"]) == {"a": 1}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Usage"),
        (("nonsense",), "No such command"),
        (("send",), "Missing argument"),
        (("send", "a", "{nope"), "no JSON"),
        (("send", "a", "[1]"), "no JSON object"),
        (("send", "a", '{"a": NaN}'), "no JSON"),
        (("runs", "list", "--limit", "0"), "--limit"),
        (("runs", "list", "--since", "5 parsecs"), "no moment"),
        (("runs", "list", "--wrong"), "No such option"),
        (("runs", "bulk-replay"), "needs a filter"),
        (("runs", "bulk-cancel", "--dry-run"), "needs a filter"),
        (("runs", "retry-from-step", "run_x"), "Missing argument"),
        (("runs", "retry-from-step", "run_x", "a", "--input", "[1"), "no JSON"),
        (("send", "a", "--url", "localhost"), "no address"),
        (("log", "dump", "--topic", "nope"), "no topic"),
        (("topics", "create"), "--kafka"),
    ],
)
async def test_wrong_usage_is_status_2_and_says_what(cli, arguments, says):
    await cli(*arguments, status=2)
    assert says in cli.err


REFUSALS = [
    (("runs", "get", "run_nope"), "run-unknown"),
    (("runs", "cancel", "run_0012345678901234567890ab"), "run-unknown"),
    (("runs", "list", "--status", "nope"), "bad-parameter"),
    (("runs", "replay", "run_0012345678901234567890ab"), "run-unknown"),
    (("runs", "bulk-replay", "--status", "running"), "bad-parameter"),
    (("jobs", "list", "--status", "late"), "bad-parameter"),
    (("send", "a*b"), "bad-json"),
    (("sql", "delete from runs"), "bad-sql"),
    (("sql", "nonsense"), "bad-sql"),
    (("sql", "select 1", "--data", "/nowhere"), "data-missing"),
    (("log", "tail", "--no-follow", "--data", "/nowhere"), "data-missing"),
    (("log", "rebuild"), "log-in-use"),
    (("worker", "nowhere.py"), "target-not-found"),
]


async def test_a_refusal_is_status_1_with_a_code_and_advice(cli, node):
    for arguments, code in REFUSALS:
        assert await cli(*arguments, status=1) == ""
        first, second, *rest = cli.err.splitlines()
        assert first.startswith("error: ") and f"({code})" in first, arguments
        assert second.startswith("  ") and rest == [], arguments
    await cli("log", "dump", "--partition", "7", status=2)
    assert "partitions 0 to 0" in cli.err


async def test_a_broker_that_is_not_there(cli):
    await cli("topics", "create", "--kafka", "127.0.0.1:1", status=1)
    assert "(log-unreachable)" in cli.err


async def test_an_engine_that_is_not_there_and_something_else_that_is(cli, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    await cli("runs", "list", "--url", f"http://127.0.0.1:{port}", status=1)
    assert "(engine-unreachable)" in cli.err and "duraton dev" in cli.err

    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await cli("runs", "list", "--url", f"http://127.0.0.1:{port}", status=1)
    assert "(not-an-engine)" in cli.err


async def test_a_key_is_sent(cli, tmp_path, monkeypatch):
    import hashlib

    digest = hashlib.sha256(b"secret").hexdigest()
    settings = NodeSettings(data=None, port=0, keys=(("ci", digest),))
    async with Node(settings) as node:
        monkeypatch.setenv("DURATON_URL", node.url)
        await cli("runs", "list", status=1)
        assert "(unauthorized)" in cli.err
        monkeypatch.setenv("DURATON_API_KEY", "secret")
        await cli("runs", "list")


async def test_the_log_is_read_while_the_engine_runs(cli, runner):
    await ended(cli, await sent(cli, {"orderId": 1}))
    topics = json.loads(await cli("log", "topics", "--json"))
    journal = next(t for t in topics["topics"] if t["topic"] == "duraton.journal")
    assert topics["partitions"] == 1 and journal["next"] > 5

    dumped = [json.loads(line) for line in (await cli("log", "dump", "--json")).splitlines()]
    assert len(dumped) == journal["next"]
    kinds = [record["type"] for record in dumped]
    assert {"OwnerTook", "EventRecorded", "RunEnded"} <= set(kinds)
    some = await cli("log", "dump", "--from", "2", "--limit", "3")
    assert [line.split()[0] for line in some.splitlines()] == [f"journal/0/{n}" for n in (2, 3, 4)]
    tail = await cli("log", "tail", "--no-follow", "-n", "1", "--topic", "duraton.outcomes")
    assert "Outcome" in tail and "completed" in tail


async def test_sql_reads_the_view(cli, runner):
    await ended(cli, await sent(cli, {"orderId": 1}))
    out = await cli("sql", "select status, count(*) as n from runs group by 1")
    assert [line.split() for line in out.splitlines()] == [["STATUS", "N"], ["completed", "1"]]
    found = json.loads(await cli("sql", "select 1 as a union select 2", "--limit", "1", "--json"))
    assert found == {"rows": [{"a": 1}], "truncated": True}


@pytest.mark.parametrize("damage", ["file", "form"])
async def test_a_damaged_state_is_rebuilt_from_the_journal(tmp_path, damage):
    settings = NodeSettings(data=tmp_path / "data", port=0)
    async with Node(settings) as node:
        await node.backend.append_events([Event(id="e1", name="a", data="{}", ts=1)])
        epoch = node.core.processors[0].standing.epoch
    state = tmp_path / "data" / "state" / "0"
    if damage == "file":
        (state / "CURRENT").write_text("nonsense")
    else:
        store = RocksStore(state)
        store.write([(b"\xf0\x00rows of no table", b"x")], [])
        store.close()
    async with Node(settings) as node:
        assert node.core.processors[0].standing.epoch == epoch + 1


async def test_verify_and_rebuild(capsys, tmp_path, monkeypatch):
    cli = Cli(capsys, "--data", str(tmp_path / "data"))
    async with Node(NodeSettings(data=tmp_path / "data", port=0)) as node:
        monkeypatch.setenv("DURATON_URL", node.url)
        stop, ready = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(connect(SHOP, node.url, stop=stop, ready=lambda _: ready.set()))
        await ready.wait()
        plain = Cli(capsys)
        await ended(plain, await sent(plain, {"orderId": 1}))
        stop.set()
        await task
        out = await cli("log", "verify")
        assert "its state was not compared" in out and out.endswith("equal\n")
    out = await cli("log", "verify")
    assert "the stored state is equal" in out and "1 of 1 matches led to one run each" in out
    report = json.loads(await cli("log", "verify", "--json"))
    assert report["ok"] and report["stateCompared"] and report["figures"]["steps"] == 1
    assert "the view was made anew" in await cli("log", "rebuild")
    assert "the stored state is equal" in await cli("log", "verify")
    assert "completed" in await cli("sql", "select status from runs")

    # One byte of a fact that is not what it was.
    import sqlite3

    with sqlite3.connect(tmp_path / "data" / "log.sqlite") as db:
        last, raw = db.execute(
            "select id, records from journal where first <= 3 order by id desc limit 1"
        ).fetchone()
        broken = raw.replace(b"\x00\x00\x00\x00", b"\x00\xff\xff\xff", 1)
        db.execute("update journal set records = ? where id = ?", (broken, last))
    db.close()
    out = await cli("log", "verify", status=1)
    assert "NOT equal" in out


async def test_doctor_is_silent_or_names_each_problem(cli, node, capsys):
    assert await cli("doctor") == "ok\n"
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(connect(SHOP, node.url, stop=stop, ready=lambda _: ready.set()))
    await ready.wait()
    assert await cli("doctor") == "ok\n"
    stop.set()
    await task
    out = await cli("doctor", status=1)
    assert "no runner offers shop/order.created (workflow-unoffered)" in out
    [only] = json.loads(await cli("doctor", "--json", status=1))
    assert set(only) == {"code", "message", "advice"}
    out = await cli("doctor", "--url", "http://127.0.0.1:1", status=1)
    assert "(engine-unreachable)" in out


async def test_a_defect_is_a_message_and_a_traceback_only_where_asked_for(
    capsys, monkeypatch, node
):
    def broken(*_):
        raise RuntimeError("surprise")

    monkeypatch.setattr("duraton_api.cli.runs.row_of", broken)
    monkeypatch.setattr("duraton_api.cli.runs._pages", lambda *_: ([{}], None))
    assert await asyncio.to_thread(main.run, ["runs", "list"]) == 1
    assert "Traceback" not in (err := capsys.readouterr().err) and "(internal)" in err
    monkeypatch.setenv("DURATON_DEBUG", "1")
    assert await asyncio.to_thread(main.run, ["runs", "list"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1_500, "1.5 s"), (61_000, "1 m 01 s"),
     (3_660_000, "1 h 01 m"), (90_000_000, "1 d 01 h")],
)  # fmt: skip
def test_spans_are_in_the_unit_that_suits_them(ms, text):
    assert span(ms) == text


def test_every_reason_to_wait_has_words():
    for kind in (
        "runner", "turn", "concurrency", "together", "throttle", "tokenThrottle", "budget",
        "project", "sleep", "event", "child", "backoff", "invoke", "new",
    ):  # fmt: skip
        waiting = {"kind": kind, "until": "2026-01-01T00:00:00Z", "step": "s", "event": "e"}
        assert "until 2026" in (told := reason_of({"waitingFor": waiting})) and "None" not in told
    waiting = {"kind": "concurrency", "key": "user.id", "value": "ada", "limit": 5}
    assert reason_of({"waitingFor": waiting}) == (
        "waits for a place of its concurrency, which 5 runs may have, where user.id is ada"
    )
    assert "where k is nothing" in reason_of({"waitingFor": {"kind": "throttle", "key": "k"}})
    assert "the subject is r7" in reason_of({"waitingFor": {"kind": "together", "value": "r7"}})
    assert reason_of({}) == ""
    assert moments({
        "createdAt": "2026-01-01T00:00:00Z", "startedAt": None, "steps": [], "failures": [],
        "endedAt": None,
    }) == [("2026-01-01T00:00:00Z", "created", "")]  # fmt: skip


def test_progress_is_shown_from_the_second_second_on(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("duraton_api.cli.show.time.monotonic", lambda: now[0])
    with show.progress("verifying") as meter:
        meter(0, 10, 100)
        now[0] = 6.0
        meter(1, 40, 100)
        now[0] = 7.0
        meter(1, 50, 100)
    assert capsys.readouterr().err == "verifying: 50 of 200 (25 %)\n"
