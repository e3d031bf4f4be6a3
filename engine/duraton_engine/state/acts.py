"""What is kept for acts on ended runs and for jobs: the objects and their tables.

All of it has an end: what was carried goes with its act or is swept, a job leaves with
its last run. Keys begin with the slot.
"""

import msgspec

from duraton_schemas.records.acts import CarriedEvent, CarriedStep
from duraton_schemas.records.common import Caller
from duraton_streams.state.table import Table


class Carry(msgspec.Struct, array_like=True):
    """What has been carried for a request so far.

    Attributes:
        parts: How many parts.
        results: How many steps are in them.
        bytes: About how much they hold.
        due: When all of it is dropped, milliseconds since 1970 UTC.
    """

    parts: int
    results: int
    bytes: int
    due: int


class CarriedPart(msgspec.Struct, array_like=True):
    """A part of what was carried."""

    events: list[CarriedEvent]
    steps: list[CarriedStep]


class ReplayClaim(msgspec.Struct, array_like=True):
    """A dedupe id of a replay that is taken: the run that was made, and until when."""

    run: str
    expires_at: int


class Wanted(msgspec.Struct, array_like=True):
    """A replay that a job asked for and that is not done yet."""

    caller: Caller


class JobState(msgspec.Struct):
    """A job that is not over, at the project slot.

    Attributes:
        parts: How many parts of ids were added.
        runs: How many ids are in them.
        due: When it is dropped if it is not begun, milliseconds since 1970 UTC; None once
            it is.
        act: `replay` or `cancel`; empty until it is begun.
        caller: Who asked for it.
        reason: Why, for people.
        part: The part of the ids whose turn it is.
        first: The next of them within the part.
        waits_for: How many runs were acted on and have not reported.
        stopping: Whether it begins no further batch.
    """

    parts: int
    runs: int
    due: int | None
    act: str = ""
    caller: Caller | None = None
    reason: str | None = None
    part: int = 0
    first: int = 0
    waits_for: int = 0
    stopping: bool = False


class JobPart(msgspec.Struct, array_like=True):
    """A part of a job's ids."""

    runs: list[str]


CARRIES = Table("carries", 70, Carry)
"""(slot, request)"""
CARRIED = Table("carried", 71, CarriedPart)
"""(slot, request, part)"""
REPLAY_CLAIMS = Table("replay_claims", 72, ReplayClaim)
"""(slot, old run, dedupe id)"""
REPLAYS_WANTED = Table("replays_wanted", 73, Wanted)
"""(slot, job, old run)"""
JOBS = Table("jobs", 74, JobState)
"""(slot, job)"""
JOB_PARTS = Table("job_parts", 75, JobPart)
"""(slot, job, part)"""

TABLES = (CARRIES, CARRIED, REPLAY_CLAIMS, REPLAYS_WANTED, JOBS, JOB_PARTS)
