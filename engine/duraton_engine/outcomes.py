"""The public record of how a run ended."""

from duraton_engine.state.objects import RunInput, RunState
from duraton_schemas.codec import Codec
from duraton_schemas.records.common import ErrorInfo, Place
from duraton_schemas.records.public import Outcome
from duraton_streams.logs.base import JOURNAL, OUTCOMES, NewRecord
from duraton_streams.partition.machine import Transition

_codec = Codec()


def outcome_record(
    tx: Transition,
    run: RunState,
    given: RunInput,
    status: str,
    output: str | None,
    error: ErrorInfo | None,
) -> NewRecord:
    """The record for `duraton.outcomes`; call it before the fact that ends the run."""
    outcome = Outcome(
        run=run.id,
        app=run.app,
        workflow=run.workflow,
        status=status,
        output=output,
        error=error,
        event_ids=[event.id for event in given.events[:100]],
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=tx.now,
        spend=run.spend,
        journal=Place(topic=JOURNAL, partition=tx.partition, offset=tx.next_seq),
    )
    headers = (
        ("ce_specversion", b"1.0"),
        ("ce_id", run.id.encode()),
        ("ce_source", b"duraton"),
        ("ce_type", f"duraton.run.{status}".encode()),
        ("ce_subject", f"{run.app}/{run.workflow}".encode()),
        ("content-type", b"application/avro"),
    )
    return NewRecord(
        OUTCOMES, tx.partition, _codec.encode(outcome), run.id.encode(), headers, tx.now
    )
