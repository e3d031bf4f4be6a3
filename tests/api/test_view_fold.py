"""What the view shows after facts, and that how they come makes no difference."""

import sqlite3

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.facts import APP, FLOW, Journal, dump, plain

from duraton_api.errors import BadSqlError, QueryTooSlowError, ViewBehindError
from duraton_api.view import View
from duraton_api.view import sql as view_sql
from duraton_api.view import view as view_module
from duraton_api.view.filters import EventFilter, RunFilter
from duraton_api.view.fold import handled
from duraton_api.view.jobs import REFUSALS_KEPT
from duraton_schemas.catalog import record_types
from duraton_schemas.records import acts
from duraton_schemas.records import journal as j
from duraton_schemas.records.common import ErrorInfo, Fact


@pytest.fixture
def journal():
    return Journal()


@pytest.fixture
def view():
    made = View(":memory:")
    yield made
    made.close()


def shown(view, run):
    """The run as list and detail show it, once both have been compared."""
    detail = plain(view.reads.run(run))
    listed = [plain(r) for r in view.reads.runs(RunFilter(kind=None)).runs]
    item = next(r for r in listed if r["id"] == run)
    trigger = {k: v for k, v in (detail["trigger"] or {}).items() if k not in ("data", "ts")}
    assert {**{k: detail[k] for k in item}, "trigger": trigger or None} == item
    return view.reads.run(run)


def fed(view, journal):
    view.feed(0, journal.new())
    view.drain()


def test_a_run_from_event_to_outcome(view, journal):
    run = journal.completed_run(steps=3)
    fed(view, journal)
    detail = shown(view, run)
    assert detail.status == "completed"
    assert [(s.id, s.status, s.attempts, s.number) for s in detail.steps] == [
        ("step-0", "completed", 1, 1),
        ("step-1", "completed", 1, 2),
        ("step-2", "completed", 1, 3),
    ]
    assert bytes(detail.output) == b'{"done":true}'
    assert bytes(detail.steps[1].output) == b'{"n":1}'
    assert detail.trigger.name == FLOW
    assert bytes(detail.trigger.data) == b'{"orderId":1}'
    assert detail.waiting_for is None
    assert detail.created_at == "2026-01-01T00:00:00.001Z"
    assert detail.duration_ms == 4


def test_a_step_retries_and_the_run_waits_for_it(view, journal):
    run = journal.started()
    error = ErrorInfo(message="upstream is away", name="HttpError", stack="Traceback ...")
    retry_at = journal.clock + 5_000
    journal.emit(
        j.StepFailed(
            run=run, step="call", n=0, kind="run", attempt=1, seen=0, error=error, retry_at=retry_at
        )
    )
    fed(view, journal)
    # One step in backoff, the handler still lives: the run is running (DESIGN 8).
    assert shown(view, run).status == "running"
    journal.emit(j.RunSuspended(run=run, seen=0))
    fed(view, journal)
    detail = shown(view, run)
    assert detail.status == "waiting"
    assert (detail.waiting_for.kind, detail.waiting_for.step) == ("backoff", "call")
    assert detail.waiting_for.until == "2026-01-01T00:00:05.002Z"
    assert detail.waiting_for.reason == "upstream is away"
    assert detail.steps[0].status == "retrying"
    assert detail.steps[0].errors[0].error.name == "HttpError"
    journal.emit(j.StepDue(run=run, step="call", n=0, attempt=2))
    journal.emit(j.RunReady(run=run, why="step", gate="runner"))
    fed(view, journal)
    detail = shown(view, run)
    assert (detail.status, detail.waiting_for.kind) == ("queued", "runner")
    journal.emit(journal.start(run))
    journal.emit(journal.done(run, "call", attempt=2))
    journal.emit(j.RunEnded(run=run, status="completed", output="null"))
    fed(view, journal)
    step = shown(view, run).steps[0]
    assert (step.status, step.attempts, len(step.errors), step.error) == ("completed", 2, 1, None)


def test_a_queued_run_waits_for_a_runner(view, journal):
    run = journal.queued()
    fed(view, journal)
    detail = shown(view, run)
    assert (detail.status, detail.waiting_for.kind, detail.started_at) == ("queued", "runner", None)


def test_a_wait_shows_once_placed_and_ready(view, journal):
    run = journal.started()
    journal.emit(
        j.StepCalled(
            run=run,
            step="paid",
            n=0,
            kind="wait",
            seen=0,
            due=journal.clock + 1000,
            event="order.paid",
            path="orderId",
            value="7",
        )
    )
    journal.emit(j.RunSuspended(run=run, seen=0))
    fed(view, journal)
    assert shown(view, run).status == "running"
    journal.emit(j.WaitAcknowledged(run=run, step="paid", n=0, part="placed"))
    fed(view, journal)
    assert shown(view, run).status == "running"
    journal.emit(j.WaitAcknowledged(run=run, step="paid", n=0, part="ready"))
    fed(view, journal)
    detail = shown(view, run)
    assert detail.status == "waiting"
    assert detail.waiting_for.event == "order.paid"
    assert detail.waiting_for.match == {"orderId": "7"}


def test_a_child_is_linked_both_ways(view, journal):
    parent = journal.started()
    journal.emit(j.StepCalled(run=parent, step="sub", n=1, kind="invoke", seen=0, workflow="w2"))
    child = journal.started(parent=parent, parent_step="sub", parent_n=1, embedded='{"x":1}')
    journal.emit(j.ChildKnown(run=parent, step="sub", n=1, child=child))
    journal.emit(j.RunSuspended(run=parent, seen=0))
    fed(view, journal)
    detail = shown(view, parent)
    assert (detail.waiting_for.kind, detail.waiting_for.run) == ("child", child)
    assert detail.waiting_for.step == "sub:1"
    assert [c.id for c in detail.children] == [child]
    below = shown(view, child)
    assert (below.parent_run.id, below.parent_run.step) == (parent, "sub")
    assert bytes(below.trigger.data) == b'{"x":1}'
    # The child's input is no event that anybody recorded.
    assert len(view.reads.events(EventFilter()).events) == 1


def test_pause_resume_and_quarantine(view, journal):
    run = journal.queued()
    journal.emit(j.RunPaused(run=run, reason="manual", caller=journal.caller))
    journal.emit(j.RunQuarantined(run=run, error=ErrorInfo(message="a bug")))
    fed(view, journal)
    detail = shown(view, run)
    assert detail.status == "paused"
    assert detail.paused_by.reason == "manual"
    assert detail.paused_by.reasons == ["manual", "quarantine"]
    assert detail.waiting_for is None
    journal.emit(j.RunResumed(run=run))
    fed(view, journal)
    assert shown(view, run).status == "queued"


def test_a_failed_run_shows_its_on_failure_execution(view, journal):
    run = journal.started()
    error = ErrorInfo(message="card declined", name="PaymentError", code="E42")
    handler = journal.run_id("failure")
    journal.emit(
        j.RunEnded(
            run=run,
            status="failed",
            error=error,
            failure_run=handler,
            failure=journal.created(kind="onFailure", failed_run=run, error=error),
        )
    )
    journal.emit(journal.start(handler))
    journal.emit(j.RunEnded(run=handler, status="completed", output="null"))
    fed(view, journal)
    detail = shown(view, run)
    assert (detail.error.message, detail.error.code) == ("card declined", "E42")
    assert (detail.on_failure.id, detail.on_failure.status) == (handler, "completed")
    handled_by = shown(view, handler)
    assert handled_by.kind == "onFailure"
    assert handled_by.handled_error.message == "card declined"
    assert bytes(handled_by.trigger.data) == b'{"orderId":1}'
    # A list of failed runs holds what failed for good, not the handlers.
    assert [r.id for r in view.reads.runs(RunFilter()).runs] == [run]
    event = view.reads.event("evt-1")
    assert [(r.outcome, r.run_id) for r in event.runs] == [("run", run)]


def test_events_and_what_they_led_to(view, journal):
    journal.event("nobody.listens", homes=0)
    journal.event("held", homes=1, held=True)
    fed(view, journal)
    assert [e.name for e in view.reads.events(EventFilter()).events] == ["nobody.listens"]
    alone = view.reads.event("evt-1")
    assert alone.runs == []
    assert "no registered workflow" in alone.why
    journal.record_held(2)
    fed(view, journal)
    event = view.reads.event("evt-2")
    assert event.recorded_at is not None
    assert [r.outcome for r in event.runs] == ["pending"]
    assert event.dedupe_id == "d2"


def test_a_repeat_names_the_first(view, journal):
    journal.event("held", held=True)
    journal.emit(j.EventDropped(place=journal.place(1), dedupe_id="d1", first_id="evt-0"))
    fed(view, journal)
    event = view.reads.event("evt-1")
    assert (event.duplicate_of, event.recorded_at) == ("evt-0", None)
    assert view.reads.events(EventFilter()).events == []


def test_workflows_follow_the_newest_registration(view, journal):
    journal.register(1, ["a", "b"])
    journal.register(2, ["b", "c"])
    journal.register(1, ["z"])
    fed(view, journal)
    found = {w.name: w.active for w in view.reads.workflows()}
    assert found == {"a": False, "b": True, "c": True}
    assert msgspec.json.decode(view.reads.workflow(APP, "c").options) == {"name": "c"}


def test_pages_are_whole_and_newest_first(view, journal):
    runs = [journal.completed_run(steps=0) for _ in range(25)]
    fed(view, journal)
    seen, cursor = [], None
    while True:
        page = view.reads.runs(RunFilter(limit=7, cursor=cursor))
        seen += [r.id for r in page.runs]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == runs[::-1]
    both = view.reads.runs(RunFilter(statuses=("completed", "failed"), limit=3))
    assert [r.id for r in both.runs] == runs[:-4:-1]
    assert view.reads.runs(RunFilter(statuses=("failed",))).runs == []
    assert view.reads.runs(RunFilter(workflow="other")).runs == []


def test_search_finds_data_ids_and_errors(view, journal):
    run = journal.completed_run(data='{"customer":"Ada Lovelace","order":"A-17"}')
    fed(view, journal)
    view.search_ready()
    failed = journal.started()
    fed(view, journal)
    journal.emit(
        j.RunEnded(run=failed, status="failed", error=ErrorInfo(message="disk quota exceeded"))
    )
    fed(view, journal)

    def find(q):
        return [r.id for r in view.reads.runs(RunFilter(q=q)).runs]

    assert find("lovelace") == [run]
    assert find("A-17") == [run]
    assert find("quota exc") == [failed]
    assert find(failed) == [failed]
    assert find("quota\0exc") == [failed]
    assert find('"') == find("AND OR") == find("nothing*here") == []


def test_every_fact_is_known_to_the_view():
    facts = {kind for kind in record_types().values() if issubclass(kind, Fact)}
    assert set(handled()) == facts
    assert len(handled()) == len(facts), "a fact is folded or ignored, not both"


def test_facts_stand_where_they_are_said_to(view, journal):
    run = journal.completed_run(steps=2)
    other = journal.completed_run(steps=1)
    fed(view, journal)
    for name in (run, other):
        places = view.reads.facts(name)
        found = [journal.facts[offset] for offset in places.offsets]
        assert found == [f for f in journal.facts if getattr(f, "run", None) == name]


def test_a_retry_begins_with_what_was_carried(view, journal):
    old = journal.completed_run(steps=3)
    journal.carry("r", old, 1)
    journal.carry("r", old, 1)
    fed(view, journal)
    run, _ = journal.replayed("r", old, step="step-2", job="job_1")
    journal.emit(journal.done(run, "step-2", 3))
    fed(view, journal)
    detail = shown(view, run)
    assert (detail.replay_of, detail.replay_step, detail.job) == (old, "step-2", "job_1")
    assert [(s.id, s.status, s.number, s.carried) for s in detail.steps] == [
        ("step-0", "completed", 1, True),
        ("step-1", "completed", 2, True),
        ("step-2", "completed", 3, False),
    ]
    assert plain(detail)["steps"][1]["output"] == {"n": 1} and detail.step_count == 3
    assert detail.spend.tokens == 3  # the carried ones' is the old run's
    assert [(r.id, r.step) for r in shown(view, old).replays] == [(run, "step-2")]
    assert len(view.reads.facts(run).offsets) == 4
    assert view.sql("SELECT count(*) FROM carried").rows == [[0]]
    assert view.sql(f"SELECT sum(carried) FROM steps WHERE run_id = '{run}'").rows == [[2]]
    assert view.sql("SELECT replay_of, replay_step FROM runs WHERE job = 'job_1'").rows == [
        [old, "step-2"]
    ]


def test_what_was_carried_for_nothing_is_forgotten(view, journal):
    old = journal.completed_run()
    journal.carry("r", old, 1)
    fed(view, journal)
    assert view.sql("SELECT count(*) FROM carried").rows == [[1]]
    journal.emit(acts.CarryDropped(request="r"))
    fed(view, journal)
    assert view.sql("SELECT count(*) FROM carried").rows == [[0]]


def test_a_job_from_its_beginning_to_its_end(view, journal):
    runs = [journal.completed_run() for _ in range(REFUSALS_KEPT + 3)]
    job = journal.job_started(total=len(runs), reason="why")
    fed(view, journal)
    made = view.reads.job(job)
    assert (made.status, made.total, made.done, made.reason) == ("running", len(runs), 0, "why")
    journal.emit(acts.JobRunReported(job=job, of=runs[0], made=runs[0]))
    for run in runs[1:]:
        journal.emit(acts.JobRunReported(job=job, of=run, code="run-gone", message="gone"))
    journal.emit(acts.JobStopAsked(job=job, caller=journal.caller))
    fed(view, journal)
    assert view.reads.job(job).status == "stopping"
    journal.emit(acts.JobEnded(job=job, status="stopped"))
    fed(view, journal)
    over = view.reads.job(job)
    assert (over.status, over.done, over.refused) == ("stopped", 1, REFUSALS_KEPT + 2)
    assert [each.run for each in over.refusals] == runs[1 : REFUSALS_KEPT + 1]
    assert view.sql("SELECT act, status, done, total FROM jobs").rows == [
        ["replay", "stopped", 1, len(runs)]
    ]
    assert view.reads.jobs(("running",), 10).jobs == []


# However the facts come ----------------------------------------------------


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_batches_make_no_difference(data):
    journal = Journal()
    journal.random_life(data)
    one, many, small = View(), View(), View(live_max=1)
    try:
        one.feed(0, journal.all())
        one.drain()
        for fact in journal.all():
            many.feed(0, [fact])
            many.drain()
        rest = journal.all()
        while rest:
            size = data.draw(st.integers(1, 7))
            small.feed(0, rest[:size])
            if data.draw(st.booleans()):
                small.feed(0, rest[:size])  # handed over twice
            small.drain()
            rest = rest[size:]
        assert dump(one) == dump(many) == dump(small)
        rebuilt = View(log=journal.log())
        try:
            rebuilt.catch_up()
            assert dump(rebuilt) == dump(one)
            rebuilt.rebuild()
            assert dump(rebuilt) == dump(one)
        finally:
            rebuilt.close()
        for run in journal.runs:
            shown(one, run)
    finally:
        one.close(), many.close(), small.close()


def test_missing_facts_come_from_the_log(journal):
    journal.completed_run(steps=2)
    view = View(log=journal.log())
    view.feed(0, journal.all()[4:])
    view.drain()
    whole = View()
    whole.feed(0, journal.all())
    whole.drain()
    assert dump(view) == dump(whole)
    view.close(), whole.close()


def test_a_queue_that_grows_too_long_is_read_from_the_log(journal, monkeypatch):
    monkeypatch.setattr(view_module, "QUEUE_FACTS_MAX", 10)
    runs = [journal.completed_run(steps=1) for _ in range(20)]
    view = View(log=journal.log())
    for fact in journal.all():
        view.feed(0, [fact])
    assert view.queued <= 10
    view.drain()
    assert [r.id for r in view.reads.runs(RunFilter()).runs] == runs[::-1]
    view.close()


def test_it_goes_on_where_it_was(tmp_path, journal):
    log = journal.log()
    run = journal.started()
    view = View(tmp_path / "v.sqlite", log)
    view.feed(0, journal.new())
    view.close()
    journal.emit(j.RunEnded(run=run, status="completed", output="1"))
    again = View(tmp_path / "v.sqlite", journal.log(log.cluster))
    assert again.reads.run_status(run) == "running"
    again.catch_up()
    assert again.reads.run_status(run) == "completed"
    again.close()


def test_a_file_of_another_cluster_or_form_is_made_anew(tmp_path, journal):
    journal.completed_run()
    view = View(tmp_path / "v.sqlite", cluster="a")
    view.feed(0, journal.new())
    view.close()
    other = View(tmp_path / "v.sqlite", cluster="b")
    assert other.positions() == {}
    assert other.reads.runs(RunFilter()).runs == []
    other.close()


def test_a_view_ahead_of_its_journal_is_made_anew(tmp_path, journal):
    log = journal.log()
    journal.completed_run()
    view = View(tmp_path / "v.sqlite", cluster=log.cluster)
    view.feed(0, journal.all())
    view.close()
    shorter = View(tmp_path / "v.sqlite", log)
    shorter.catch_up()
    assert shorter.reads.runs(RunFilter()).runs == []
    shorter.close()


async def test_readers_wait_for_their_own_writes(journal):
    log = journal.log()
    view = View(log=log, interval_s=60)
    view.start()
    run = journal.completed_run()
    journal.write_to(log)
    view.feed(0, journal.new())
    await view.reached({0: len(journal.facts)})
    assert (await view.ask(view.reads.run, run)).status == "completed"
    with pytest.raises(ViewBehindError, match="1 records behind"):
        await view.reached({0: len(journal.facts) + 1}, timeout_s=0.01)
    view.close()


async def test_what_nobody_hands_over_is_read_from_the_log(journal):
    log = journal.log()
    view = View(log=log, interval_s=60)
    view.start()
    await view.reached({})
    run = journal.completed_run()
    journal.write_to(log)
    await view.reached({0: len(journal.facts)})
    assert (await view.ask(view.reads.run, run)).status == "completed"
    view.close()


async def test_a_fold_that_fails_is_tried_again_from_the_log(journal, monkeypatch):
    run = journal.completed_run()
    view = View(log=journal.log())
    broken = {"left": 2}
    write = view._store.write

    def fail_twice(*args):
        if broken["left"]:
            broken["left"] -= 1
            raise OSError("disk full")
        write(*args)

    monkeypatch.setattr(view._store, "write", fail_twice)
    monkeypatch.setattr(view_module, "_BACKOFF_S", (0.001,))
    view.start()
    await view.reached({0: len(journal.facts)})
    assert view.failure is None
    assert view.reads.run_status(run) == "completed"
    view.close()


@pytest.mark.parametrize("damage", ["no database", "overwritten"])
def test_a_damaged_file_is_made_anew(tmp_path, journal, damage):
    path = tmp_path / "v.sqlite"
    run = journal.completed_run()
    log = journal.log()
    if damage == "overwritten":
        first = View(path, log)
        first.catch_up()
        first.close()
    size = path.stat().st_size if path.exists() else 8192
    path.write_bytes(b"nonsense" * (size // 8))
    view = View(path, log)
    view.catch_up()
    assert view.reads.run_status(run) == "completed"
    view.close()


async def test_a_file_damaged_while_running_is_made_anew(tmp_path, journal, monkeypatch):
    run = journal.completed_run()
    log = journal.log()
    view = View(tmp_path / "v.sqlite", log)
    monkeypatch.setattr(view_module, "_BACKOFF_S", (0.001,))
    broken = [sqlite3.DatabaseError("database disk image is malformed")]
    write = view._store.write

    def fail_once(*args):
        if broken:
            raise broken.pop()
        write(*args)

    monkeypatch.setattr(view._store, "write", fail_once)
    assert view.reads.run_status(run) is None
    view.start()
    await view.reached({0: len(journal.facts)})
    assert await view.ask(view.reads.run_status, run) == "completed"
    view.close()


def test_waiting_runs_do_not_stay_in_memory(journal):
    view = View(live_max=100)
    for _ in range(20):
        for _ in range(250):
            journal.queued()
        view.feed(0, journal.new())
        view.drain()
    assert len(view._fold._live) <= 100
    # One that has left memory goes on where it was.
    first = journal.runs[0]
    journal.emit(journal.start(first))
    fed(view, journal)
    assert view.sql("SELECT status, count(*) FROM runs GROUP BY 1").rows == [
        ["queued", 4999],
        ["running", 1],
    ]
    view.close()


# People's SQL ---------------------------------------------------------------


def test_sql_reads_the_documented_tables(view, journal):
    run = journal.completed_run(steps=2)
    fed(view, journal)
    answer = view.sql("SELECT id, status, duration_ms, event_name, steps FROM runs")
    assert answer.columns == ["id", "status", "duration_ms", "event_name", "steps"]
    assert answer.rows == [[run, "completed", 3, FLOW, 2]]
    answer = view.sql("SELECT step, output FROM steps WHERE run_id = (SELECT id FROM runs)")
    assert answer.rows == [["step-0", '{"n":0}'], ["step-1", '{"n":1}']]
    assert view.sql("SELECT 1 UNION SELECT 2", limit=1).truncated


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM run_rows",
        "ATTACH '/tmp/x' AS x",
        "PRAGMA journal_mode = DELETE",
        "SELECT 1; SELECT 2",
        "SELECT load_extension('x')",
        "SELECT nothing FROM runs",
        "not sql",
        "",
        "SELECT zeroblob(100000000)",
        "SELECT " + "1," * 20_000 + "1",
    ],
)
def test_sql_refuses(view, query):
    with pytest.raises(BadSqlError):
        view.sql(query)


def test_sql_cuts_an_answer_that_is_too_large(view, monkeypatch):
    monkeypatch.setattr(view_sql, "ANSWER_CHARS_MAX", 10_000)
    many = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 50) SELECT {} FROM n"
    )
    answer = view.sql(many.format("randomblob(3000)"))
    assert (len(answer.rows), answer.truncated) == (3, True)
    assert len(view.sql(many.format("x")).rows) == 50
    assert len(view.sql("SELECT randomblob(20000)").rows) == 1


def test_sql_stops_after_its_time(view, monkeypatch):
    monkeypatch.setattr(view_sql, "QUERY_TIME_LIMIT_S", 0.01)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT sum(x) FROM n"
    with pytest.raises(QueryTooSlowError):
        view.sql(endless)
