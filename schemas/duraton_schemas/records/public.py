"""Records that users write and read: events, outcomes, registry entries."""

from duraton_schemas.records.common import Caller, ErrorInfo, Place, Record, Spend


class Event(Record, kw_only=True):
    """What happened.

    Attributes:
        id: The sender's id, or one that the API gave. It may repeat.
        name: The event's name.
        data: A JSON object as text.
        ts: The sender's time in milliseconds since 1970 UTC.
        dedupe_id: A repeat within 24 h is dropped before any fan-out (P18).
        subject: What it is about, as CloudEvents has it.
        caller: Who sent it, or None for a record written straight to the topic.
    """

    id: str
    name: str
    data: str
    ts: int
    dedupe_id: str | None = None
    subject: str | None = None
    caller: Caller | None = None


class Outcome(Record, kw_only=True):
    """How a run ended; the record's key is the run's id.

    Attributes:
        run: The run's id.
        app: Its app.
        workflow: Its workflow.
        status: `completed`, `failed` or `cancelled`.
        output: What the handler returned, as JSON text; None unless completed.
        error: Why it failed or was cancelled.
        event_ids: The ids of the events that started it.
        created_at: Milliseconds since 1970 UTC.
        started_at: Its first start, or None.
        ended_at: Milliseconds since 1970 UTC.
        spend: What its AI steps used.
        journal: The place of the fact, by partition and seq.
    """

    run: str
    app: str
    workflow: str
    status: str
    output: str | None = None
    error: ErrorInfo | None = None
    event_ids: list[str] = []
    created_at: int
    started_at: int | None = None
    ended_at: int
    spend: Spend | None = None
    journal: Place


class RegistryEntry(Record, kw_only=True):
    """One thing the registry knows, at one version; the record's key is `kind:key`.

    Attributes:
        version: The registry's version that this entry made.
        kind: `app`, `shape`, `prices` and later others.
        key: The app's name, the shape's canonical text, or `prices`.
        body: The entry as JSON text, or None where it was removed.
        gates: The last version that changed a gate's keys (DESIGN 4).
    """

    version: int
    kind: str
    key: str
    body: str | None
    gates: int = 0
