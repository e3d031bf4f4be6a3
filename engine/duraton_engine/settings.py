"""Settings of the engine."""

from dataclasses import dataclass

from duraton_schemas.controls import Together
from duraton_schemas.values import BATCH_BYTES_MAX, RUN_STATE_BYTES_MAX


@dataclass(frozen=True)
class Settings:
    """What a cluster may set; the defaults are those of the seeds and SPEC.

    Attributes:
        silence_ms: How long a runner may be silent before its invocations count as
            lost, and how long an owner waits for runners after it took over.
        invokes_max: Invokes of one invocation before the run fails (retries seed).
        invoke_delay_ms: Between two of them.
        failure_delay_ms_max: The longest wait between onFailure's groups of invokes.
        failure_ms_max: How long onFailure is tried while its runner is away (P39).
        dedupe_ms: How long a dedupe id holds (P18).
        run_bytes_max: Everything one run holds (P58).
        steps_max: Steps of one run.
        shapes_max: Pairs of event name and path that runs may wait by.
        shape_check_ms: After how long it is looked at whether anybody still waits by such
            a pair; if not, it is retired until somebody does again.
        starts_max: Runs started from lanes, or asks for places answered, in one transition.
        holdings_max: Gate keys with who holds them in one message to the project slot; of
            the longest names so many stay far below what a record may hold.
        batch_bytes_max: Data of one batch's events; a fuller buffer is flushed early (P58).
        budget_tick: Milliseconds between two looks at a workflow's budget, at most; they
            are at whole multiples of it (P30).
        together_max: What `together` is where a workflow states none, so many at once;
            None for no limit (P22).
        carry_ms: After how long what was carried for an act is dropped where the act has
            not come (DESIGN 9); so are the ids of a job that was not begun.
        replay_dedupe_ms: How long a dedupe id of a replay holds.
        jobs_max: Jobs that are not over.
        job_batch: Runs of a job that are acted on at once (P57).
    """

    silence_ms: int = 15_000
    invokes_max: int = 3
    invoke_delay_ms: int = 1_000
    failure_delay_ms_max: int = 3_600_000
    failure_ms_max: int = 86_400_000
    dedupe_ms: int = 86_400_000
    run_bytes_max: int = RUN_STATE_BYTES_MAX
    steps_max: int = 10_000
    shapes_max: int = 10_000
    shape_check_ms: int = 30 * 86_400_000
    starts_max: int = 64
    holdings_max: int = 500
    batch_bytes_max: int = BATCH_BYTES_MAX
    budget_tick: int = 10_000
    together_max: int | None = None
    carry_ms: int = 600_000
    replay_dedupe_ms: int = 86_400_000
    jobs_max: int = 100
    job_batch: int = 100

    @property
    def together(self) -> Together | None:
        """The `together` of workflows that state none."""
        return None if self.together_max is None else Together(max=self.together_max)
