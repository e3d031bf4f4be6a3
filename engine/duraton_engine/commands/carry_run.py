"""Keep what a run that is to be repeated had, until the act that follows (DESIGN 9)."""

from duraton_engine.appliers.replays import part_bytes
from duraton_engine.context import EngineContext
from duraton_engine.effects import Reply
from duraton_engine.errors import CARRY_INCOMPLETE, RUN_STATE_TOO_LARGE
from duraton_engine.state import acts
from duraton_schemas.ids import run_slot
from duraton_schemas.records import acts as facts
from duraton_schemas.records import commands
from duraton_streams.partition.machine import Transition


def carry_run(tx: Transition, engine: EngineContext, command: commands.CarryRun) -> None:
    """One part has come; parts come in order, and together are no more than a run may hold."""
    slot = run_slot(command.run)
    held = tx.state.get(acts.CARRIES, (slot, command.request))
    if command.part != (held.parts if held is not None else 0):
        message = f"part {command.part} of {command.request} does not follow what was carried"
        tx.effect(Reply(command.id, ok=False, code=CARRY_INCOMPLETE, message=message))
        return
    size = part_bytes(command.events, command.steps) + (held.bytes if held is not None else 0)
    if size > engine.settings.run_bytes_max:
        message = f"the run would hold more than {engine.settings.run_bytes_max} bytes"
        tx.effect(Reply(command.id, ok=False, code=RUN_STATE_TOO_LARGE, message=message))
        return
    carried = facts.RunCarried(
        request=command.request,
        of=command.run,
        part=command.part,
        events=command.events,
        steps=command.steps,
        due=tx.now + engine.settings.carry_ms,
    )
    tx.emit(slot, carried)
    tx.effect(Reply(command.id, ok=True, run=command.run))


def drop_carried(tx: Transition, slot: int, request: str) -> None:
    """Forget what was carried for a request, if there is anything."""
    if tx.state.get(acts.CARRIES, (slot, request)) is not None:
        tx.emit(slot, facts.CarryDropped(request=request))
