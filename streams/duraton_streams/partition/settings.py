"""Settings of a partition's processor."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessorSettings:
    """Bounds of one batch and of what may wait.

    Attributes:
        calls_max: Calls (runners' answers) taken into one batch.
        messages_max: Messages taken into one batch.
        timers_max: Due timers taken into one batch.
        commands_max: Commands taken into one batch.
        events_max: Events taken into one batch.
        records_max: Records of a batch after which it takes nothing more.
        bytes_max: Bytes of a batch's records after which it takes nothing more: what a log
            writes well within its deadline of 10 s.
        batches_max: Batches under way at once: while one is committed, the next is
            decided about, so that neither the log nor the processor waits.
        local_max: Follow-up messages within the partition in one batch; more than
            this is a loop in the engine and stops the partition.
        backlog_max: Events and commands that may wait in memory before new work
            is refused (429).
        alive_after_ms: A commit that took longer is followed by `owner.alive`
            before any effect: half of the session timeout of 6 s.
        replay_batch: Journal records read at once in recovery.
        keep_facts: Facts after which the state is written to its store. What lives and
            dies between two writes costs the store nothing; a start replays what was
            not written, at most this many facts (a second at the floor of DESIGN 10).
        keep_entries: Changed rows after which it is written in any case.
    """

    calls_max: int = 1_024
    messages_max: int = 512
    timers_max: int = 512
    commands_max: int = 128
    events_max: int = 512
    records_max: int = 4_096
    bytes_max: int = 16 << 20
    batches_max: int = 2
    local_max: int = 100_000
    backlog_max: int = 20_000
    alive_after_ms: int = 3_000
    replay_batch: int = 2_000
    keep_facts: int = 30_000
    keep_entries: int = 16_384
