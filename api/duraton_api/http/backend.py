"""What the HTTP API needs of a node, and the values that pass between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from duraton_api.http.keys import ApiKey
from duraton_api.http.metrics import Metrics
from duraton_api.view import View
from duraton_engine.effects import EventAnswered, Reply
from duraton_schemas.records.commands import Command
from duraton_schemas.records.common import Fact
from duraton_schemas.records.public import Event
from duraton_schemas.values import EVENT_BYTES_MAX

POST_EVENTS_MAX = 1_000
POST_BYTES_MAX = 6 << 20
"""One POST goes to one partition in one write, and a record may not pass 7 MiB."""
BODY_BYTES_MAX = 4 << 20
"""Bodies of other calls: an app's registration is the largest."""


@dataclass(frozen=True)
class HttpSettings:
    """What the API allows.

    Attributes:
        keys: Who may call; with none, only this machine may, as the key `dev`.
        hosts: Names that a keyless server may be called by, beside those of loopback.
        event_bytes_max: One event's data, in bytes of its stored JSON.
        post_bytes_max: One body of `POST /events`, in bytes.
        post_events_max: Events in one POST.
        body_bytes_max: Bodies of other calls, in bytes.
    """

    keys: tuple[ApiKey, ...] = ()
    hosts: frozenset[str] = frozenset()
    event_bytes_max: int = EVENT_BYTES_MAX
    post_bytes_max: int = POST_BYTES_MAX
    post_events_max: int = POST_EVENTS_MAX
    body_bytes_max: int = BODY_BYTES_MAX


class WorkflowAnswer(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What one workflow made of an event.

    Attributes:
        app: Its app.
        workflow: Its name.
        run_id: The run that it led to; of a join the joined one; otherwise None.
        dropped: The rate limit shed it.
        deduped: Its idempotency key was taken.
        skipped: The singleton was busy.
        joined: An unended run took it in.
        refused: The code by which it was refused, for example T7103.
        buffered: A debounce window or a batch holds it.
        blocked_by: The run in the way.
        error: Why the workflow could not take it.
    """

    app: str
    workflow: str
    run_id: str | None = msgspec.field(default=None)
    dropped: bool = False
    deduped: bool = False
    skipped: bool = False
    joined: bool = False
    refused: str | None = None
    buffered: bool = False
    blocked_by: str | None = None
    error: str | None = None


class PendingAnswer(msgspec.Struct, rename="camel", frozen=True):
    """A workflow whose answer has not come yet; `GET /events/{id}` will have it."""

    app: str
    workflow: str


class EventResult(msgspec.Struct, rename="camel", kw_only=True):
    """What became of one event of a POST.

    Attributes:
        event_id: Its id.
        answers: One for each workflow that it matched and that has answered.
        duplicate_of: Where it repeats a dedupe id, the first event's id; then
            nothing of it was recorded and there are no answers.
        pending: Workflows that have not answered in time.
        recorded: Whether it is known to be recorded; False where that is
            pending as well (the event is on the log all the same).
    """

    event_id: str
    answers: list[WorkflowAnswer] = []
    duplicate_of: str | None = None
    pending: list[PendingAnswer] = []
    recorded: bool = True


class Readiness(msgspec.Struct, rename="camel", kw_only=True):
    """Whether the node may be given work.

    Attributes:
        ready: Whether every partition it owns has recovered and consumes.
        reasons: Why it is not, for people.
        partitions: The partitions that it owns.
    """

    ready: bool
    reasons: list[str] = []
    partitions: list[int] = []


class RunnerInfo(msgspec.Struct, rename="camel", kw_only=True):
    """A runner process as the node sees it.

    Attributes:
        name: Its name.
        boot: Its random id.
        transport: `connect` or `serve`.
        offers: The (app, workflow) pairs that it executes.
        capacity: How many runs it executes at once.
        busy: How many it executes.
        draining: Whether it takes nothing new.
    """

    name: str
    boot: str
    transport: str
    offers: list[tuple[str, str]]
    capacity: int
    busy: int
    draining: bool = False


class Backend(Protocol):
    """A node, as the HTTP API uses it. All of it is called on the event loop."""

    @property
    def view(self) -> View:
        """The node's view."""

    @property
    def metrics(self) -> Metrics:
        """The node's counters."""

    @property
    def settings(self) -> HttpSettings:
        """What the API allows."""

    async def append_events(self, events: Sequence[Event]) -> Sequence[EventResult]:
        """Record the events of one POST, in order, and gather the answers to them.

        It returns once every workflow has answered, or after 5 s with what is
        pending. The events' `caller` is set already.

        Raises:
            OverloadedError: Too much new work waits; nothing was recorded.
            LogError: They could not be recorded.
        """

    async def command(self, command: Command) -> Reply:
        """Carry out a command; of the registry, until every partition decides by it.

        Raises:
            PendingError: It is recorded, and was not answered, or not in force, in time.
            LogError: It could not be recorded.
        """

    def journal_ends(self) -> Mapping[int, int]:
        """For each partition the offset after its last committed fact.

        A read waits until the view has these.
        """

    def now_ms(self) -> int:
        """The cluster's time, by which gates open: milliseconds since 1970 UTC."""

    async def read_facts(self, partition: int, offsets: Sequence[int]) -> Sequence[Fact | None]:
        """Facts of the journal by their offsets; None where one is gone."""

    def readiness(self) -> Readiness:
        """Whether the node may be given work."""

    def runners(self) -> Sequence[RunnerInfo]:
        """The runners that are connected or registered by URL."""


def answer_of(effect: EventAnswered) -> WorkflowAnswer:
    """A workflow's answer as the engine gave it."""
    outcome = effect.outcome
    answer = WorkflowAnswer(app=effect.app, workflow=effect.workflow, run_id=effect.run)
    if outcome == "refused":
        answer.refused = (effect.error.code if effect.error else None) or "refused"
    elif outcome in ("dropped", "deduped", "skipped", "joined", "buffered"):
        setattr(answer, outcome, True)
    answer.blocked_by = effect.blocker
    if effect.error is not None:
        answer.error = effect.error.message
    return answer
