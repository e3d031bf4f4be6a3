"""How each fact changes state.

An applier is total: it never refuses, reads no clock and decides nothing.
Released appliers are not edited; a new version of a fact gets a new one.
"""

from collections.abc import Mapping

from duraton_engine.appliers import events, jobs, owner, registry, replays, runs, steps
from duraton_schemas.records import acts
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Fact
from duraton_streams.partition.machine import Applier

APPLIERS: Mapping[type[Fact], Applier] = {
    facts.OwnerTook: owner.owner_took,
    facts.OwnerAlive: owner.owner_alive,
    facts.Positions: owner.positions,
    facts.InputGap: owner.input_gap,
    facts.CommandParked: owner.command_parked,
    facts.RegistryChanged: registry.registry_changed,
    facts.RegistrationApplied: registry.registration_applied,
    facts.PartitionReported: registry.partition_reported,
    facts.ShapeRequested: registry.shape_requested,
    facts.ShapeAnswered: registry.shape_answered,
    facts.ShapeIdle: registry.shape_idle,
    facts.EventHeld: events.event_held,
    facts.EventClaimed: events.event_claimed,
    facts.EventDropped: events.event_dropped,
    facts.EventRecorded: events.event_recorded,
    facts.DedupeClaimed: events.dedupe_claimed,
    facts.DedupeExpired: events.dedupe_expired,
    facts.CronArmed: events.cron_armed,
    facts.CronFired: events.cron_fired,
    facts.RunQueued: runs.run_queued,
    facts.RunStarted: runs.run_started,
    facts.RunSuspended: runs.run_suspended,
    facts.RunReady: runs.run_ready,
    facts.RunAttemptFailed: runs.run_attempt_failed,
    facts.InvokeFailed: runs.invoke_failed,
    facts.RunPaused: runs.run_paused,
    facts.RunQuarantined: runs.run_quarantined,
    facts.RunResumed: runs.run_resumed,
    facts.RunEnded: runs.run_ended,
    facts.StepCalled: steps.step_called,
    facts.StepCompleted: steps.step_completed,
    facts.StepFailed: steps.step_failed,
    facts.StepDue: steps.step_due,
    facts.StepDiscarded: steps.step_discarded,
    facts.WaitAcknowledged: steps.wait_acknowledged,
    facts.ChildKnown: steps.child_known,
    facts.WaitStood: steps.wait_stood,
    facts.WaitGone: steps.wait_gone,
    acts.RunCarried: replays.run_carried,
    acts.CarryDropped: replays.carry_dropped,
    acts.ReplayDeduped: replays.replay_deduped,
    acts.ReplayWanted: replays.replay_wanted,
    acts.ReplayRefused: replays.replay_refused,
    acts.JobRunsAdded: jobs.job_runs_added,
    acts.JobStarted: jobs.job_started,
    acts.JobBatchSent: jobs.job_batch_sent,
    acts.JobRunReported: jobs.job_run_reported,
    acts.JobStopAsked: jobs.job_stop_asked,
    acts.JobEnded: jobs.job_ended,
    acts.JobDropped: jobs.job_dropped,
}
