"""Between a runner's frames and the log's records: errors, spend, refused answers.

The two have types of their own: a frame may gain a field without a new version of a
record's schema, and the other way round.
"""

from duraton_schemas.cap import read_cap
from duraton_schemas.options import WorkflowOptions
from duraton_schemas.records.common import ErrorInfo, Spend
from duraton_schemas.wire.frames import (
    Complete,
    Fail,
    FrameCap,
    FrameError,
    FrameSpend,
    Stale,
    Step,
    Suspend,
)


def error_info(error: FrameError) -> ErrorInfo:
    """A runner's error as it is stored; when to try again is decided from the frame."""
    return ErrorInfo(
        message=error.message,
        name=error.name,
        stack=error.stack,
        code=error.code,
        final=error.final,
        note=error.note,
    )


def frame_error(error: ErrorInfo) -> FrameError:
    """A stored error as a frame carries it."""
    return FrameError(
        message=error.message,
        name=error.name,
        stack=error.stack,
        code=error.code,
        final=error.final,
        note=error.note,
    )


def frame_spend(spend: Spend | None) -> FrameSpend | None:
    """A run's committed spend as a frame carries it."""
    if spend is None:
        return None
    unknown = spend.unknown or spend.cost_unknown
    return FrameSpend(tokens=spend.tokens, cost=spend.cost, unknown=unknown)


def frame_cap(options: WorkflowOptions | None) -> FrameCap | None:
    """A workflow's cap as a frame carries it, or None without one."""
    if options is None or options.cap is None:
        return None
    cap = read_cap(options.name, options.cap)
    return FrameCap(max_tokens=cap.max_tokens, max_cost=cap.max_cost)


def stale_answer(answer: Step | Suspend | Complete | Fail, epoch: int = 0) -> Stale:
    """What tells a runner that an answer does not count.

    Args:
        answer: The answer.
        epoch: The owner's epoch, or 0 where no owner decided it.
    """
    if isinstance(answer, Step):
        return Stale(
            run=answer.run,
            token=answer.token,
            step=answer.step,
            n=answer.n,
            attempt=answer.attempt,
            epoch=epoch,
        )
    of = str(type(answer).__struct_config__.tag)
    return Stale(run=answer.run, token=answer.token, of=of, epoch=epoch)
