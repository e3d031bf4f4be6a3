"""Between a runner's frames and the log's records: errors, usage, refused answers.

The two have types of their own: a frame may gain a field without a new version of a
record's schema, and the other way round.
"""

from duraton_schemas.records.common import ErrorInfo, Spend
from duraton_schemas.wire.frames import Complete, Fail, FrameError, FrameSpend, Stale, Step, Suspend


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


def spend_of(spend: FrameSpend | None) -> Spend | None:
    """A runner's usage as it is stored."""
    if spend is None:
        return None
    return Spend(tokens=spend.tokens, cost=spend.cost, unknown=spend.unknown)


def frame_spend(spend: Spend | None) -> FrameSpend | None:
    """Stored usage as a frame carries it."""
    if spend is None:
        return None
    return FrameSpend(tokens=spend.tokens, cost=spend.cost, unknown=spend.unknown)


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
