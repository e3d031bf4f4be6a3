"""A journal made by hand: facts with their headers, and the log that would hold them."""

import msgspec
from hypothesis import strategies as st

from duraton_api.view.filters import EventFilter, RunFilter
from duraton_schemas.codec import Codec
from duraton_schemas.ids import run_id
from duraton_schemas.records import acts
from duraton_schemas.records import journal as j
from duraton_schemas.records.common import Caller, Cause, ErrorInfo, FactHeader, Place, StepSpend
from duraton_schemas.records.public import Event
from duraton_streams.logs.base import EVENTS, JOURNAL, NewRecord
from duraton_streams.logs.memory import MemoryLog

APP, FLOW = "shop", "order.created"
START = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class Journal:
    """One partition's facts, offset by offset; time passes a millisecond a fact."""

    def __init__(self, partition=0):
        self.partition = partition
        self.facts = []
        self.handed = 0
        self.clock = START
        self.events = 0
        self.runs = []
        self.caller = Caller(kind="key", id="dev", root="key:dev")
        self.ids = 0
        self.carried = {}
        self.jobs = []

    def emit(self, fact):
        fact.header = FactHeader(
            slot=3,
            seq=len(self.facts) + 1,
            epoch=1,
            at=self.clock,
            registry=1,
            cause=Cause(kind=EVENTS, partition=0, offset=self.events),
        )
        self.facts.append(fact)
        self.clock += 1
        return fact

    def all(self):
        return list(enumerate(self.facts))

    def new(self):
        new = self.all()[self.handed :]
        self.handed = len(self.facts)
        return new

    def log(self, cluster=None):
        log = MemoryLog(1, cluster)
        self.write_to(log)
        return log

    def write_to(self, log):
        codec, writer = Codec(), log.writer(0)
        done = log.bounds(JOURNAL, 0)[1]
        records = [NewRecord(JOURNAL, 0, codec.encode(fact)) for fact in self.facts[done:]]
        if records:
            writer.commit(records)

    # What happens in it

    def run_id(self, origin):
        self.ids += 1
        run = run_id(3, f"{origin}:{self.ids}", APP, FLOW)
        self.runs.append(run)
        return run

    def place(self, offset):
        return Place(topic=EVENTS, partition=0, offset=offset)

    def event(self, name=FLOW, homes=1, *, held=False, data=None):
        self.events += 1
        n = self.events
        event = Event(
            id=f"evt-{n}",
            name=name,
            data=data or f'{{"orderId":{n}}}',
            ts=self.clock,
            caller=self.caller,
            dedupe_id=f"d{n}" if held else None,
        )
        if held:
            self.emit(j.EventHeld(event=event, place=self.place(n), asked=True))
        else:
            self.record(n, event, homes)
        return n

    def record(self, n, event, homes=1):
        home = j.Home(app=APP, workflow=FLOW)
        self.emit(
            j.EventRecorded(
                event=event, event_id=f"evt-{n}", place=self.place(n), homes=[home] * homes
            )
        )

    def record_held(self, n):
        self.record(n, None)

    def created(self, n=None, *, embedded=None, **fields):
        place, event = self.place(n or self.events), None
        if embedded is not None:
            place = Place(topic=JOURNAL, partition=0, offset=len(self.facts) + 1)
            event = Event(id="call", name="invoke", data=embedded, ts=self.clock)
        trigger = j.Trigger(event=event, event_id=f"evt-{n or self.events}", place=place)
        return j.RunCreated(
            app=APP,
            workflow=FLOW,
            origin=f"event:{place}",
            triggers=[trigger],
            caller=self.caller,
            ready_at=self.clock,
            sort_at=self.clock,
            **fields,
        )

    def start(self, run, created=None):
        return j.RunStarted(
            run=run,
            created=created,
            token_epoch=1,
            token_number=len(self.facts),
            runner="w",
            boot="b",
            transport="connect",
            first=created is not None,
        )

    def started(self, data=None, **fields):
        if "parent" not in fields:
            self.event(data=data)
        run = self.run_id("event")
        self.emit(self.start(run, self.created(**fields)))
        return run

    def queued(self):
        self.event()
        run = self.run_id("event")
        self.emit(j.RunQueued(run=run, created=self.created(), gate="runner"))
        return run

    def done(self, run, step, number=1, attempt=1, n=0):
        return j.StepCompleted(
            run=run,
            step=step,
            n=n,
            kind="run",
            attempt=attempt,
            number=number,
            seen=number - 1,
            output=f'{{"n":{number - 1}}}',
            spend=StepSpend(tokens=3, cost=5, model="m", prompt=2, completion=1),
        )

    def completed_run(self, steps=1, data=None):
        run = self.started(data=data)
        for number in range(steps):
            self.emit(self.done(run, f"step-{number}", number + 1))
        self.emit(j.RunEnded(run=run, status="completed", output='{"done":true}'))
        return run

    def register(self, version, names):
        flows = ",".join(f'{{"name":"{name}"}}' for name in names)
        body = f'{{"name":"{APP}","workflows":[{flows}]}}'
        self.emit(j.RegistryChanged(version=version, kind="app", key=APP, body=body))

    def random_life(self, data):
        """Runs that take random turns, each sequence one that an engine could write."""
        live = {}
        for _ in range(data.draw(st.integers(1, 40))):
            choice = data.draw(st.integers(0, 13))
            if not live or choice == 0:
                if data.draw(st.booleans()):
                    live[self.started()] = ("running", 0, set())
                else:
                    live[self.queued()] = ("queued", 0, set())
                continue
            if choice == 1:
                self.event(held=data.draw(st.booleans()), homes=data.draw(st.integers(0, 1)))
                continue
            if choice == 12:
                again = self.carry_or_replay(data.draw)
                if again is not None:
                    live[again[0]] = ("running", again[1], set())
                continue
            if choice == 13:
                self.job_turn(data.draw)
                continue
            run = data.draw(st.sampled_from(sorted(live)))
            live[run] = self._turn(data, run, *live[run])
            if live[run] is None:
                del live[run]

    def carry(self, request, of, steps):
        """One more part of what a replay will begin with."""
        parts, results = self.carried.get(request, (0, 0))
        carried = [
            acts.CarriedStep(
                step=f"step-{n}", n=0, kind="run", attempt=1, seen=n, output=f'{{"n":{n}}}'
            )
            for n in range(results, results + steps)
        ]
        self.emit(acts.RunCarried(request=request, of=of, part=parts, steps=carried, due=0))
        self.carried[request] = (parts + 1, results + steps)

    def replayed(self, request, of, **fields):
        """A run that begins with what was carried."""
        run = self.run_id("replay")
        _, results = self.carried.pop(request)
        replay = acts.Replay(of=of, request=request, results=results, **fields)
        self.emit(self.start(run, self.created(1, replay=replay)))
        return run, results

    def carry_or_replay(self, draw):
        old = draw(st.sampled_from(self.runs))
        request = f"r-{draw(st.integers(0, 2))}-{old}"
        pick = draw(st.sampled_from(["carry", "carry", "drop", "replay"]))
        if pick == "carry" or request not in self.carried:
            self.carry(request, old, draw(st.integers(0, 3)))
        elif pick == "replay":
            step = draw(st.none() | st.just("flaky"))
            return self.replayed(request, old, step=step, n=1 if step else 0)
        else:
            self.emit(acts.CarryDropped(request=request))
            del self.carried[request]
        return None

    def job_started(self, total=2, **fields):
        job = f"job_{len(self.jobs)}"
        self.jobs.append(job)
        self.emit(
            acts.JobStarted(
                job=job, act="replay", filter='{"status":"failed"}', total=total,
                caller=self.caller, **fields,
            )
        )  # fmt: skip
        return job

    def job_turn(self, draw):
        if not self.jobs or draw(st.integers(0, 3)) == 0:
            self.job_started()
            return
        job, run = draw(st.sampled_from(self.jobs)), draw(st.sampled_from(self.runs))
        fact = draw(
            st.sampled_from(
                [
                    acts.JobRunReported(job=job, of=run, made=run),
                    acts.JobRunReported(job=job, of=run, code="run-gone", message="it is gone"),
                    acts.JobStopAsked(job=job, caller=self.caller),
                    acts.JobEnded(job=job, status="completed"),
                ]
            )
        )
        self.emit(fact)

    def _turn(self, data, run, phase, number, pending):
        error = ErrorInfo(message="boom", name="BoomError", stack="at x")
        if phase != "running":
            pick = data.draw(st.sampled_from(["start", "pause", "resume", "ready", "end", "bug"]))
            if pick == "start":
                self.emit(self.start(run))
                return "running", number, pending
            return self._aside(run, pick, error, phase, number, pending)
        pick = data.draw(
            st.sampled_from(
                [
                    "done",
                    "fail",
                    "retry",
                    "sleep",
                    "wait",
                    "send",
                    "suspend",
                    "lost",
                    "throw",
                    "pause",
                    "resume",
                    "end",
                    "late",
                ]
            )
        )
        step, due = f"s{number}", self.clock + 100
        if pick in ("done", "send"):
            self.emit(self.done(run, step, number + 1))
            if pick == "send":
                place = Place(topic=JOURNAL, partition=0, offset=len(self.facts) + 1)
                event = Event(id=f"{run}/{step}", name="x", data="{}", ts=self.clock)
                self.emit(j.EventRecorded(event=event, event_id=event.id, place=place, run=run))
            return phase, number + 1, pending
        if pick in ("fail", "retry"):
            base = {"run": run, "step": "flaky", "n": number, "kind": "run", "seen": number}
            self.emit(j.StepFailed(**base, attempt=1, error=error, retry_at=due))
            if pick == "retry":
                self.emit(j.StepDue(run=run, step="flaky", n=number, attempt=2))
                self.emit(self.done(run, "flaky", number + 1, 2, n=number))
                return phase, number + 1, pending
            return phase, number, pending
        if pick in ("sleep", "wait"):
            self.emit(
                j.StepCalled(
                    run=run,
                    step=pick,
                    n=len(pending),
                    kind=pick,
                    seen=number,
                    due=due,
                    event="e" if pick == "wait" else None,
                )
            )
            if pick == "wait":
                for part in ("placed", "ready"):
                    self.emit(j.WaitAcknowledged(run=run, step=pick, n=len(pending), part=part))
            return phase, number, pending | {(pick, len(pending))}
        if pick == "suspend":
            self.emit(j.RunSuspended(run=run, seen=number))
            return "waiting", number, pending
        if pick == "lost":
            self.emit(j.InvokeFailed(run=run, invoke=1, reason="gone", retry_at=due))
            return "waiting", number, pending
        if pick == "throw":
            self.emit(j.RunAttemptFailed(run=run, attempt=1, error=error, retry_at=due))
            return "waiting", number, pending
        if pick == "late":
            self.emit(
                j.StepDiscarded(
                    run=run,
                    step="x",
                    n=0,
                    attempt=1,
                    token="0.1.1",
                    reason="stale",
                    spend=StepSpend(tokens=1, unknown=True, cost_unknown=True),
                )
            )
            return phase, number, pending
        return self._aside(run, pick, error, phase, number, pending)

    def _aside(self, run, pick, error, phase, number, pending):
        if pick == "pause":
            self.emit(j.RunPaused(run=run, reason="manual", caller=self.caller))
        elif pick == "resume":
            self.emit(j.RunResumed(run=run))
        elif pick == "ready":
            self.emit(j.RunReady(run=run, why="step", gate="runner"))
            return "queued", number, pending
        elif pick == "bug":
            self.emit(j.RunQuarantined(run=run, error=error))
            return "queued", number, pending
        elif pick == "end":
            handler = self.run_id("failure") if number % 2 else None
            failure = self.created(1, kind="onFailure", failed_run=run, error=error)
            self.emit(
                j.RunEnded(
                    run=run,
                    status="failed",
                    error=error,
                    failure_run=handler,
                    failure=failure if handler else None,
                )
            )
            return None
        return phase, number, pending


def dump(view):
    """All that a view answers, for comparing."""
    runs = [view.reads.run(run.id) for run in view.reads.runs(RunFilter(kind=None, limit=500)).runs]
    events = view.reads.events(EventFilter(limit=500)).events
    return {
        "runs": [plain(run) for run in runs],
        "events": [plain(view.reads.event(event.id)) for event in events],
        "facts": {run.id: view.reads.facts(run.id).offsets for run in runs},
        "positions": view.positions(),
        "jobs": [plain(job) for job in view.reads.jobs((), 500).jobs],
        "workflows": [plain(workflow) for workflow in view.reads.workflows()],
    }


def plain(shape):
    return msgspec.json.decode(msgspec.json.encode(shape))
