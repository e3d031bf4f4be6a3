"""A small engine for tests of the SDK: it commits what a runner sends, in order.

It is a reference of the protocol's order rules: one number a result, in the order
of commits; acks and wakes in that order; a suspend is legal when all that pends is
the engine's to wake. When it speaks is the test's choice, so that a test can let
results come one by one or all at once.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from duraton.app import App
from duraton.runtime.runner import Runner
from duraton_schemas.ids import run_id
from duraton_schemas.options import Retry
from duraton_schemas.wire.frames import (
    Ack,
    Cancel,
    Complete,
    Drain,
    Fail,
    FrameError,
    FrameEvent,
    Hello,
    Invoke,
    Stale,
    Step,
    StepMemo,
    Suspend,
    Wake,
    WakeItem,
    decode_from_engine,
    decode_from_runner,
    encode,
)

Key = tuple[str, int]


@dataclass
class Recorded:
    """A step as the log has it."""

    kind: str
    seen: int
    number: int = 0
    output: str | None = None
    attempt: int = 1
    due: bool = False


@dataclass
class Run:
    """A run as the engine has it."""

    id: str
    app: str
    workflow: str
    events: list[FrameEvent]
    steps: dict[Key, Recorded] = field(default_factory=dict)
    results: int = 0
    token: str = ""
    tokens: int = 0
    attempt: int = 1
    status: str = "queued"
    output: Any = None
    error: FrameError | None = None
    live: bool = False


class ScriptedEngine:
    """Drives a Runner over its frames' bytes.

    Args:
        app: What the runner offers.
        hold: Decides whether a runner's Step is kept back; `release` commits those.
    """

    def __init__(self, *apps: App, hold: Callable[[Step], bool] = lambda _step: False) -> None:
        self.epoch = 1
        self.runs: dict[str, Run] = {}
        self.hold = hold
        self.held: list[Step] = []
        self.sent: list[Any] = []
        self.executed: list[tuple[str, str, int]] = []
        self.replies: list[Any] = []
        self.lossy = False
        self.runner = Runner(list(apps), self._from_runner, observer=self, now_ms=lambda: 0)
        self.connect()

    def connect(self) -> None:
        self.runner.hello()
        self.runner.receive([Hello(node="test")])

    def restart_runner(self) -> None:
        """The runner's process dies and a new one comes."""
        apps = list(self.runner.apps.values())
        self.runner.close()
        self.held.clear()
        self.replies.clear()
        self.runner = Runner(apps, self._from_runner, observer=self, now_ms=lambda: 0)
        self.connect()
        for run in self.runs.values():
            run.live = False

    def execution_began(self, run: str, step: str, attempt: int) -> None:
        self.executed.append((run, step, attempt))

    def start(self, workflow: str, data: Any = None, app: str | None = None) -> Run:
        app = app or next(name for name, a in self.runner.apps.items() if workflow in a.workflows)
        number = len(self.runs) + 1
        run_name = run_id(0, f"event:{number}", app, workflow)
        event = FrameEvent(id=f"e{number}", name=workflow, data=json.dumps(data or {}), ts=1000)
        run = self.runs[run_name] = Run(run_name, app, workflow, [event])
        self.invoke(run)
        return run

    def invoke(self, run: Run, **fields: Any) -> None:
        run.tokens += 1
        run.token = f"0.{self.epoch}.{run.tokens}"
        run.live, run.status = True, "running"
        done = sorted((r.number, key) for key, r in run.steps.items() if r.number)
        memos = [self._memo(key, run.steps[key]) for _, key in done]
        memos += [self._memo(key, r) for key, r in run.steps.items() if not r.number]
        self._to_runner(
            Invoke(
                run=run.id,
                token=run.token,
                epoch=self.epoch,
                app=run.app,
                workflow=run.workflow,
                attempt=run.attempt,
                events=run.events,
                steps=memos,
                results=run.results,
                **fields,
            )
        )

    @staticmethod
    def _memo(key: Key, step: Recorded) -> StepMemo:
        status = "done" if step.number else "due" if step.due else "pending"
        return StepMemo(
            step=key[0],
            n=key[1],
            kind=step.kind,
            status=status,
            number=step.number,
            seen=step.seen,
            attempt=step.attempt,
            output=step.output,
        )

    # From the runner

    def _from_runner(self, frames: list[Any]) -> None:
        for frame in decode_from_runner(encode(frames)):
            self.sent.append(frame)
            if self.lossy or isinstance(frame, (Hello, Drain)):
                continue
            if isinstance(frame, Step) and self.hold(frame):
                self.held.append(frame)
            else:
                self.commit(frame)

    def commit(self, frame: Any) -> None:
        """Commit an answer and say so."""
        run = self.runs[frame.run]
        if frame.token != run.token or not run.live:
            of = "step" if isinstance(frame, Step) else type(frame).__name__.lower()
            extra = (
                {"step": frame.step, "n": frame.n, "attempt": frame.attempt}
                if isinstance(frame, Step)
                else {}
            )
            self._to_runner(Stale(run=run.id, token=frame.token, of=of, epoch=self.epoch, **extra))
        elif isinstance(frame, Step):
            self._commit_step(run, frame)
        elif isinstance(frame, Suspend):
            due = any(r.due for r in run.steps.values())
            run.live = False
            run.status = "waiting"
            self._ack(run, "suspend")
            if due or frame.seen < run.results:
                self.invoke(run)
        elif isinstance(frame, Complete):
            run.live, run.status, run.output = False, "completed", json.loads(frame.output)
            self._ack(run, "complete")
        elif isinstance(frame, Fail):
            run.live, run.status, run.error = False, "failed", frame.error
            self._ack(run, "fail")

    def _commit_step(self, run: Run, frame: Step) -> None:
        key = (frame.step, frame.n)
        step = run.steps.get(key)
        if step is not None and step.number:
            self._ack_step(run, frame, number=step.number)
            return
        if step is None:
            step = run.steps[key] = Recorded(frame.kind, frame.seen)
        step.attempt, step.due = frame.attempt, False
        if frame.error is not None:
            policy = json.loads(frame.retry) if frame.retry else {}
            attempts = policy.get("maxAttempts", Retry().max_attempts)
            if frame.error.final or frame.attempt >= attempts:
                self._ack_step(run, frame)
                run.live, run.status, run.error = False, "failed", frame.error
                self._to_runner(
                    Cancel(run=run.id, token=run.token, reason="failed", epoch=self.epoch)
                )
            else:
                step.attempt += 1
                self._ack_step(run, frame, retry_at=1)
        elif frame.kind in ("sleep", "wait", "invoke"):
            self._ack_step(run, frame)
        else:
            self._number(run, step, frame.output if frame.kind != "send" else '"sent"')
            output = step.output if frame.kind == "send" else None
            self._ack_step(run, frame, number=step.number, output=output)

    @staticmethod
    def _number(run: Run, step: Recorded, output: str | None) -> None:
        run.results += 1
        step.number, step.output, step.due = run.results, output or "null", False

    def release(self, count: int = 1, *, last: bool = False) -> None:
        """Commit steps that were held, the oldest first, or the newest."""
        for _ in range(count):
            self.commit(self.held.pop(-1 if last else 0))

    def wake(self, run: Run, step: str, output: Any = None, *, n: int = 0) -> None:
        """Bring a sleep, wait or child to its end; without a live token it is invoked."""
        recorded = run.steps[(step, n)]
        self._number(run, recorded, json.dumps(output))
        self._wake(run, WakeItem(step=step, n=n, number=recorded.number, output=recorded.output))

    def due(self, run: Run, step: str, *, n: int = 0) -> None:
        """A backoff is over."""
        recorded = run.steps[(step, n)]
        recorded.due = True
        self._wake(run, WakeItem(step=step, n=n, attempt=recorded.attempt))

    def _wake(self, run: Run, item: WakeItem) -> None:
        if run.live:
            self._to_runner(Wake(run=run.id, token=run.token, items=[item], epoch=self.epoch))
        elif run.status == "waiting":
            self.invoke(run)

    def _ack(self, run: Run, of: str) -> None:
        self._to_runner(Ack(run=run.id, token=run.token, of=of, epoch=self.epoch))

    def _ack_step(self, run: Run, frame: Step, **fields: Any) -> None:
        self._to_runner(
            Ack(
                run=run.id,
                token=frame.token,
                step=frame.step,
                n=frame.n,
                attempt=frame.attempt,
                epoch=self.epoch,
                **fields,
            )
        )

    def _to_runner(self, frame: Any) -> None:
        """One frame, a pass of the loop later, as a socket would bring it."""
        if not self.replies:
            asyncio.get_running_loop().call_soon(self._deliver)
        self.replies.append(frame)

    def _deliver(self) -> None:
        replies, self.replies = self.replies, []
        if replies:
            self.runner.receive(decode_from_engine(encode(replies)))

    # Waiting

    async def settle(self) -> None:
        """Until nothing more happens without the test's doing."""
        quiet = 0
        while quiet < 40:
            before = self._progress()
            await asyncio.sleep(0.001 if self.runner.executing else 0)
            same = before == self._progress() and not self.runner.host.tasks_executing
            quiet = quiet + 1 if same else 0

    def _progress(self) -> tuple[int, ...]:
        given = sum(each.live.order.seen for each in self.runner.executions.values())
        return len(self.sent), len(self.executed), len(self.replies), given

    def steps_executed(self) -> list[tuple[str, int]]:
        return [(step, attempt) for _, step, attempt in self.executed]
