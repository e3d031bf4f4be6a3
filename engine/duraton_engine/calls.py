"""What reaches the engine without a place on the log: runners' answers and their coming and going.

A call is offered to the processor of a partition; its effect is durable once a
fact says so, and it is offered again (resent, or seen anew at start) if not.
"""

import msgspec

from duraton_schemas.wire.frames import Complete, Fail, Step, Suspend


class Answered(msgspec.Struct, frozen=True):
    """A runner's frame about one of its runs; goes to the partition of the run's slot.

    Attributes:
        boot: The runner process that sent it.
        frame: What it sent.
    """

    boot: str
    frame: Step | Suspend | Complete | Fail


class RunnerSettled(msgspec.Struct, frozen=True):
    """A runner said hello: its tokens that it lists go on, its others end; to every partition.

    Only tokens from before the hello are judged: those that `Seat.since_hello`
    holds are newer than the list and go on.

    Attributes:
        boot: The runner process.
        live: Its live invocations, as (run id, token) pairs.
        name: Its name where a person gave it: the tokens of other boots of that
            name end at once, whoever knew of them. Otherwise None.
    """

    boot: str
    live: frozenset[tuple[str, str]]
    name: str | None = None


class RunnerLost(msgspec.Struct, frozen=True):
    """A runner process is gone for good: all its tokens end; to every partition.

    Attributes:
        boot: The runner process.
        reason: What happened, for people.
        counts: Whether each of its runs loses one of the three invokes (P38); a
            runner that drained and left costs none.
    """

    boot: str
    reason: str
    counts: bool = True


class InvokeMissed(msgspec.Struct, frozen=True):
    """One invocation did not reach its runner or got no answer (serve); to the run's partition.

    Attributes:
        run: The run's id.
        token: The invocation's token.
        reason: What happened, for people.
        counts: Whether it uses one of the three invokes (P38); a runner that
            answered "draining" costs none.
    """

    run: str
    token: str
    reason: str
    counts: bool = True


class RoomFreed(msgspec.Struct, frozen=True):
    """A runner came, or has room again: look at the runs that wait for one; to every partition."""


class LanesAwaited(msgspec.Struct, frozen=True):
    """Lanes of a workflow are to be looked at: after a start, or where a share was used up.

    Attributes:
        slot: The workflow's home.
        app: Its app.
        workflow: Its name.
        gates: The gates before which they stand; None for all, in order of name.
        after: Where all are meant, the gate after which to go on, or None.
        firings: Whether all those are meant at which firings are held.
    """

    slot: int
    app: str
    workflow: str
    gates: tuple[str, ...] | None = None
    after: str | None = None
    firings: bool = False


class PlacesFreed(msgspec.Struct, frozen=True):
    """At the project slot: asks are to be weighed, where a transition's share was used up.

    Attributes:
        keys: The gate keys before which they stand; None for all.
    """

    keys: tuple[str, ...] | None = None


class RunnerAwaited(msgspec.Struct, frozen=True):
    """A runner process of the time before this owner has tokens: wait for its hello.

    Attributes:
        boot: The runner process.
    """

    boot: str


class SilenceOver(msgspec.Struct, frozen=True):
    """The owner has waited for such a runner process as long as it may.

    Attributes:
        boot: The runner process.
    """

    boot: str


class JobGoesOn(msgspec.Struct, frozen=True):
    """Nothing of a job is under way; a partition gives it to itself.

    Attributes:
        job: The job.
    """

    job: str


class CarryAwaited(msgspec.Struct, frozen=True):
    """A job's replay was wanted in the time before this owner and is not done.

    Attributes:
        job: The job.
        run: The old run.
    """

    job: str
    run: str


Call = Answered | RunnerSettled | RunnerLost | InvokeMissed | RoomFreed
"""What a node gives to partitions; the others a partition gives to itself."""
