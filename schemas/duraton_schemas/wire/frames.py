"""The frames of the runner protocol, for both transports (DESIGN 8).

A message is a msgpack array of frames: one WebSocket message (connect) or one
HTTP body (serve). A frame is a map with its `type`. Values travel as JSON text,
so what was stored is what arrives.
"""

import msgspec

from duraton_schemas.errors import BadRecordError

PROTOCOL_VERSION = 1
MESSAGE_BYTES_MAX = 48 << 20
"""One message: a run's state of 32 MiB and what stands around it."""
FRAMES_MAX = 4_096
"""Frames in one message; a sender splits what is longer."""
USAGES_MAX = 20
"""Entries of one answer's usage: models that one attempt of a step called."""


class Frame(
    msgspec.Struct,
    rename="camel",
    omit_defaults=True,
    tag_field="type",
    kw_only=True,
    gc=False,
):
    """Root of the frames."""


class FrameError(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """An error that a runner reports.

    Attributes:
        message: What it said.
        name: Its type's name.
        stack: The traceback's text.
        code: A stable code, where the SDK gives one.
        final: Whether retrying cannot help (NonRetriableError, P36).
        retry_after_ms: RetryAfterError's delay in milliseconds.
        retry_at: RetryAfterError's moment, milliseconds since 1970 UTC.
        note: Why RetryAfterError's argument was unusable (P35).
    """

    message: str
    name: str = "Error"
    stack: str | None = None
    code: str | None = None
    final: bool = False
    retry_after_ms: int | None = None
    retry_at: int | None = None
    note: str | None = None


class FrameUsage(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What a call of a model used, as the runner read it from the answer (P29).

    Attributes:
        model: The model, as the answer names it, or None.
        tokens: All tokens as billed: prompt and completion.
        prompt: Tokens of the prompt, cached ones included.
        completion: Tokens of the completion.
        cached: Those of the prompt that were read from a cache.
        cache_writes: Those of the prompt that were written to a cache.
        cost: Micro-dollars, where the author states it; otherwise the engine's price
            table says.
        unknown: Whether the answer did not say what it used, or not all of it.
    """

    model: str | None = None
    tokens: int = 0
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    cache_writes: int = 0
    cost: int | None = None
    unknown: bool = False


class FrameSpend(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A run's committed spend.

    Attributes:
        tokens: As billed.
        cost: Micro-dollars, as far as prices were known.
        unknown: Whether some usage or cost was not known; it counts 0.
    """

    tokens: int = 0
    cost: int = 0
    unknown: bool = False


class FrameCap(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What a run may spend at most: tokens, micro-dollars, or both."""

    max_tokens: int | None = None
    max_cost: int | None = None


class FrameEvent(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """An event as a handler sees it; `data` is JSON text, `ts` milliseconds."""

    id: str
    name: str
    data: str
    ts: int
    dedupe_id: str | None = None
    subject: str | None = None


class LiveToken(msgspec.Struct, rename="camel", kw_only=True):
    """An invocation that the runner still executes."""

    run: str
    token: str


class StepMemo(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A step as an invocation brings it.

    Attributes:
        step: Its id.
        n: Which use of that id, from 0 (P42).
        kind: `run`, `sleep`, `wait`, `invoke`, `send` or `ai`.
        status: `done` (has output), `pending` (the engine will wake it) or
            `due` (execute attempt `attempt` when the handler calls it).
        number: The result's number; 0 unless done.
        seen: How many results the handler had when it first called the step.
        attempt: The attempt that succeeded, is awaited or is due.
        output: JSON text where done.
    """

    step: str
    n: int = 0
    kind: str = "run"
    status: str = "done"
    number: int = 0
    seen: int = 0
    attempt: int = 1
    output: str | None = None


class StepInput(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What one step is given in place of its own input, since a person edited it (P40).

    Attributes:
        step: The step's id.
        n: Which use of that id.
        input: JSON text: for `run` and `ai` an array of positional arguments or an
            object of named ones, for `invoke` and `send` the data.
    """

    step: str
    n: int = 0
    input: str


class WakeItem(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What a live handler waited for.

    Attributes:
        step: The step's id.
        n: Which use of that id.
        number: The result's number, or 0 where the step is to be tried again.
        attempt: The attempt to execute, where number is 0.
        output: JSON text, where number is not 0.
    """

    step: str
    n: int = 0
    number: int = 0
    attempt: int = 1
    output: str | None = None


# Both ways ---------------------------------------------------------------


class Hello(Frame, tag="hello"):
    """First frame of a connection, each way.

    Runner to engine: everything but `node`, `epochs`. Engine to runner: `node`,
    `version`, and `tokens`, those it goes on to count (adopted).

    Attributes:
        version: `PROTOCOL_VERSION`.
        apps: `AppOptions` as JSON texts.
        capacity: How many runs it executes at once.
        name: Its name; one of its own where none was given.
        explicit: Whether a person gave the name, so that one live boot may have it.
        boot: Random, new in each process.
        tokens: What it still executes.
        sdk: Its language and version.
        node: The engine node's name.
        ping_ms: How often each side sends `ping`.
        silence_ms: After how long without a frame the other side counts as lost.
    """

    version: int = PROTOCOL_VERSION
    apps: list[str] = []
    capacity: int = 0
    name: str = ""
    explicit: bool = False
    boot: str = ""
    tokens: list[LiveToken] = []
    sdk: str = ""
    node: str = ""
    ping_ms: int = 5_000
    silence_ms: int = 15_000


class Ping(Frame, tag="ping"):
    """A sign of life; not answered, each side sends its own."""


class Drain(Frame, tag="drain"):
    """The sender takes nothing new; what it has, it finishes. Costs no attempt."""


# Runner to engine ---------------------------------------------------------


class Step(Frame, tag="step"):
    """A step was called, or its code has ended.

    For `run`, `ai` and `send` it is sent when the code has ended (for `send` when
    it is called): one of `output`, `error`, or `event` is set. For `sleep`,
    `wait` and `invoke` it asks the engine to bring the step to its end.

    Attributes:
        run: The run's id.
        token: The invocation's token.
        step: The step's id.
        n: Which use of that id in program order (P42).
        kind: `run`, `sleep`, `wait`, `invoke`, `send` or `ai`.
        attempt: From 1.
        seen: How many results the handler had when it called the step.
        output: JSON text.
        error: What was thrown.
        retry: The step's own `Retry` as JSON text (P34).
        started_at: When the code began, milliseconds since 1970 UTC.
        usage: What its calls of models used, one entry a model.
        due_ms: Sleep: from now. Wait: its time-out from now.
        due_at: Sleep until, milliseconds since 1970 UTC.
        event: Wait: the event's name. Send: the event's name.
        path: Wait: the field's path, or empty.
        value: Wait: the canonical text.
        data: Send and invoke: JSON text.
        app: Invoke: the child's app, or empty for the same.
        workflow: Invoke: the child's workflow.
    """

    run: str
    token: str
    step: str
    n: int = 0
    kind: str = "run"
    attempt: int = 1
    seen: int = 0
    output: str | None = None
    error: FrameError | None = None
    retry: str | None = None
    started_at: int | None = None
    usage: list[FrameUsage] = []
    due_ms: int | None = None
    due_at: int | None = None
    event: str | None = None
    path: str = ""
    value: str = ""
    data: str | None = None
    app: str = ""
    workflow: str | None = None


class Suspend(Frame, tag="suspend"):
    """All that pends is the engine's to wake, or the run is held: the invocation ends.

    Attributes:
        run: The run's id.
        token: The invocation's token.
        seen: How many results the handler has.
        held: Whether a `pause` kept steps from beginning, so that there is more to do.
    """

    run: str
    token: str
    seen: int = 0
    held: bool = False


class Complete(Frame, tag="complete"):
    """The handler returned; `output` is JSON text."""

    run: str
    token: str
    output: str = "null"
    seen: int = 0


class Fail(Frame, tag="fail"):
    """The handler's own code threw (P37)."""

    run: str
    token: str
    error: FrameError
    seen: int = 0


# Engine to runner ---------------------------------------------------------


class Invoke(Frame, tag="invoke"):
    """Execute a run from its beginning, with what is recorded.

    Attributes:
        run: The run's id.
        token: What every answer must carry.
        epoch: The owner's epoch; a runner refuses frames of a lower one than the
            highest seen for the partition in the token.
        app: The app.
        workflow: The workflow.
        kind: `main` or `onFailure`.
        attempt: Which attempt of the handler's own code (P37).
        events: The run's events, the first is `ctx.event`.
        error: onFailure: the error handled.
        failed_run: onFailure: the failed run's id.
        steps: What is recorded, in order of number, then what pends.
        results: How many of them are done.
        spend: The run's committed spend.
        cap: What it may spend; looked at before each attempt of an `ai` step.
        started_at: The run's first start, milliseconds since 1970 UTC.
        root: The root caller.
        step_input: What one step is given in place of its own input, or None.
    """

    run: str
    token: str
    epoch: int
    app: str
    workflow: str
    kind: str = "main"
    attempt: int = 1
    events: list[FrameEvent] = []
    error: FrameError | None = None
    failed_run: str | None = None
    steps: list[StepMemo] = []
    results: int = 0
    spend: FrameSpend | None = None
    cap: FrameCap | None = None
    started_at: int = 0
    root: str = ""
    step_input: StepInput | None = None


class Ack(Frame, tag="ack"):
    """An answer is committed.

    Attributes:
        run: The run's id.
        token: The invocation's token.
        of: What is acknowledged: `step`, `suspend`, `complete` or `fail`.
        step: The step's id, for `step`.
        n: Which use of that id.
        attempt: The attempt acknowledged.
        number: The result's number, where the step has its result.
        output: What the handler sees where the engine made it (for example an
            event's id of `send`); None: what the runner sent.
        retry_at: The step failed and is due again then; its future stays pending.
        epoch: The owner's epoch.
        spend: The run's committed spend.
    """

    run: str
    token: str
    of: str = "step"
    step: str = ""
    n: int = 0
    attempt: int = 1
    number: int = 0
    output: str | None = None
    retry_at: int | None = None
    epoch: int = 0
    spend: FrameSpend | None = None


class Wake(Frame, tag="wake"):
    """What a live handler waited for has come."""

    run: str
    token: str
    items: list[WakeItem] = []
    epoch: int = 0


class Cancel(Frame, tag="cancel"):
    """The invocation ended on the engine's side: stop, send nothing more for it.

    `reason` is `cancelled`, `failed`, `paused` or `superseded`.
    """

    run: str
    token: str
    reason: str = "cancelled"
    epoch: int = 0


class Pause(Frame, tag="pause"):
    """Begin nothing new: let what executes end, send its results, then suspend as held."""

    run: str
    token: str
    epoch: int = 0


class Stale(Frame, tag="stale"):
    """An answer does not count and is not to be sent again."""

    run: str
    token: str
    of: str = "step"
    step: str = ""
    n: int = 0
    attempt: int = 1
    epoch: int = 0


class Refused(Frame, tag="refused"):
    """Why a hello is not let in: a close frame, which follows, has room for 123 bytes only."""

    code: str
    message: str


RunnerFrame = Hello | Ping | Drain | Step | Suspend | Complete | Fail
EngineFrame = Hello | Ping | Drain | Invoke | Ack | Wake | Pause | Cancel | Stale | Refused

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises about bytes that are no message."""

_encoder = msgspec.msgpack.Encoder()
_runner_decoder = msgspec.msgpack.Decoder(list[RunnerFrame])
_engine_decoder = msgspec.msgpack.Decoder(list[EngineFrame])


def encode(frames: list[RunnerFrame] | list[EngineFrame] | list[Frame]) -> bytes:
    """The bytes of a message of frames."""
    return _encoder.encode(frames)


def decode_from_runner(message: bytes) -> list[RunnerFrame]:
    """Read a runner's message.

    Raises:
        BadRecordError: It is no message of frames that a runner sends.
    """
    try:
        return _runner_decoder.decode(message)
    except _UNREADABLE as error:
        raise BadRecordError(f"the runner's message cannot be read: {error}") from error


def decode_from_engine(message: bytes) -> list[EngineFrame]:
    """Read an engine's message.

    Raises:
        BadRecordError: It is no message of frames that an engine sends.
    """
    try:
        return _engine_decoder.decode(message)
    except _UNREADABLE as error:
        raise BadRecordError(f"the engine's message cannot be read: {error}") from error
