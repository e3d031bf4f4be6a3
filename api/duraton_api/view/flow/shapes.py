"""What the view answers about flow control."""

from duraton_api.view.shapes import Shape


class DebounceRow(Shape, kw_only=True):
    """The debounce windows of a workflow (P47).

    Attributes:
        pending: Open windows, and fired ones that are held.
        next_fire_at: When the earliest open one fires; None where all are held.
    """

    app: str
    workflow: str
    pending: int
    next_fire_at: str | None


class BatchRow(Shape, kw_only=True):
    """The batch buffers of a workflow (P47).

    Attributes:
        buffered: Events in open buffers, and in flushed ones that are held.
        oldest_at: When the oldest of these buffers was opened.
    """

    app: str
    workflow: str
    buffered: int
    oldest_at: str | None


class ConcurrencyShape(Shape, kw_only=True):
    """The project's ceiling (0 is none), and how many runs execute."""

    limit: int
    in_use: int


class FlowState(Shape, kw_only=True):
    """What `GET /flow-state` answers (flow control seed)."""

    debounce: list[DebounceRow]
    batch: list[BatchRow]
    concurrency: ConcurrencyShape


class RunRef(Shape, kw_only=True):
    """A run that holds a scope or waits for it."""

    id: str
    status: str
    created_at: str


class HeldShape(Shape, kw_only=True):
    """A fired window or flushed buffer that is held (P15).

    Attributes:
        kind: `debounce` or `batch`.
        key: The path of its own key, or None.
        value: Its value.
        events: How many events came into it.
        opened_at: When it was opened.
    """

    kind: str
    key: str | None
    value: str | None
    events: int
    opened_at: str


class ScopeShape(Shape, kw_only=True, omit_defaults=True):
    """A control in one scope: who holds it, who waits for it and why, and when next.

    Attributes:
        control: `runner`, `concurrency`, `together`, `throttle`, `tokenThrottle`,
            `singleton`, `debounce`, `batch` and others.
        key: The path by which it is counted, where it has a key.
        value: Its value; None where the path does not resolve (P2). A value of more than
            200 characters is shown as `#` and its hash.
        why: What holds back who waits there, for people.
        limit: As it is stated now: concurrency's limit, or starts in `per_ms`.
        max: `together`'s max.
        group: `together`'s group.
        then: What becomes of a start over `max`.
        mode: A singleton's mode.
        per_ms: The time of `limit` starts, or in which `tokens` fill.
        in_use: How many runs execute in it.
        holders: The first of the runs that hold it: executing ones, of a singleton unended.
        waiting: How many runs wait for it.
        line: The first of them, in the order of their turns.
        firings: How many firings are held there.
        held: The first of them, in order.
        next_start_at: When the next start is allowed; None where it is now.
        tokens: The bucket's capacity.
        level: The bucket's level; below 0 where it is in debt (P32).
        held_at: Since when a budget holds the workflow.
        max_tokens: A budget's tokens in `per_ms`.
        max_cost: A budget's dollars in `per_ms`.
        used_tokens: What was spent in it when it was found to be crossed.
        used_cost: The same in dollars.
        count: Events that came into the window or buffer.
        bytes: How much a buffer holds.
        opened_at: When the window or buffer was opened.
        age_ms: How long ago that is.
        due_at: When it fires, or is flushed at the latest.
        cursor: Asks for more of the line; None where it is whole.
    """

    app: str
    workflow: str
    control: str
    key: str | None = None
    value: str | None = None
    why: str = ""
    limit: int | None = None
    max: int | None = None
    group: str | None = None
    then: str | None = None
    mode: str | None = None
    per_ms: int | None = None
    in_use: int | None = None
    holders: list[RunRef] = []
    waiting: int = 0
    line: list[RunRef] = []
    firings: int = 0
    held: list[HeldShape] = []
    next_start_at: str | None = None
    tokens: int | None = None
    level: int | None = None
    held_at: str | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    used_tokens: int | None = None
    used_cost: float | None = None
    count: int | None = None
    bytes: int | None = None
    opened_at: str | None = None
    age_ms: int | None = None
    due_at: str | None = None
    cursor: str | None = None


class StartsShape(Shape, kw_only=True):
    """Starts of a workflow that led to no run of their own, since its journal begins.

    Attributes:
        deduped: Their idempotency key was taken.
        dropped: The rate limit shed them.
        skipped: Their singleton was busy.
        refused: They were over `max`, or would have joined another caller's run.
        superseded: Held firings that a later one replaced.
        joined: They joined a run.
    """

    app: str
    workflow: str
    deduped: int = 0
    dropped: int = 0
    skipped: int = 0
    refused: int = 0
    superseded: int = 0
    joined: int = 0


class FlowDetail(Shape, kw_only=True):
    """A page of scopes, by app, workflow, control and key; and of one workflow its starts."""

    scopes: list[ScopeShape]
    starts: list[StartsShape]
    cursor: str | None
