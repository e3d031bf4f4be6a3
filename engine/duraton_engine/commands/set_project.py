"""What holds for the whole project is changed: its ceiling."""

import msgspec

from duraton_engine.commands.register_app import change_registry
from duraton_engine.context import EngineContext
from duraton_engine.effects import Reply
from duraton_engine.registrations import PROJECT
from duraton_engine.state import tables
from duraton_schemas.errors import ProjectError
from duraton_schemas.options import ProjectOptions
from duraton_schemas.records import commands
from duraton_schemas.slots import PROJECT_SLOT
from duraton_streams.partition.machine import Transition


def set_project(tx: Transition, engine: EngineContext, command: commands.SetProject) -> None:
    """Set the ceiling; from or to 0 the keys change by which runs are counted."""
    options = ProjectOptions(ceiling=command.ceiling)
    try:
        options.check()
    except ProjectError as error:
        tx.effect(Reply(command.id, ok=False, code=error.code, message=str(error)))
        return
    row = tx.state.get(tables.REGISTRY, (PROJECT_SLOT, PROJECT, PROJECT))
    old = ProjectOptions()
    version = 0
    if row is not None and row.body is not None:
        old = msgspec.json.decode(row.body, type=ProjectOptions)
        version = row.version
    if options != old:
        body = msgspec.json.encode(options).decode()
        gated = (options.ceiling == 0) != (old.ceiling == 0)
        version = change_registry(tx, PROJECT, PROJECT, body, gated=gated)
    tx.effect(Reply(command.id, ok=True, version=version))
