"""Cron: a workflow's next tick, and the run that a tick starts (P55)."""

from datetime import UTC, datetime

import msgspec

from duraton_engine.commands.offer_event import take_start
from duraton_engine.commands.take_start import Start
from duraton_engine.context import EngineContext
from duraton_engine.schedule import next_tick, schedule_text
from duraton_engine.state import tables
from duraton_engine.state.flow import Taken
from duraton_schemas.ids import run_id
from duraton_schemas.records import journal as facts
from duraton_schemas.records.common import Caller, Place
from duraton_schemas.records.public import Event
from duraton_schemas.slots import home_slot, partition_of
from duraton_streams.logs.base import JOURNAL
from duraton_streams.partition.machine import Transition
from duraton_streams.state.table import scan_all

CRON = Caller(kind="system", id="cron", root="system:cron")


def fire_cron(tx: Transition, engine: EngineContext, slot: int, app: str, workflow: str) -> None:
    """A tick is due: it starts one run, however late; the next one is armed."""
    armed = tx.state.get(tables.CRON, (slot, app, workflow))
    assert armed is not None, "a disarmed schedule took its timer along"
    options = engine.registrations.workflow(app, workflow)
    if options is None or options.cron is None:
        gone = facts.CronArmed(app=app, workflow=workflow, due=None, schedule="")
        tx.emit(slot, gone)
        return
    tick = armed.due
    due = next_tick(options.cron, tx.now)
    tx.emit(slot, facts.CronFired(app=app, workflow=workflow, tick=tick, due=due))
    origin = f"cron:{tick}"
    run = run_id(slot, origin, app, workflow)
    at = datetime.fromtimestamp(tick / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    data = msgspec.json.encode({"cron": options.cron.expr, "scheduledAt": at}).decode()
    event_id = f"{run}/tick"
    event = Event(id=event_id, name="duraton.cron", data=data, ts=tick, caller=CRON)
    place = Place(topic=JOURNAL, partition=tx.partition, offset=tx.next_seq)
    flow = engine.registrations.flow(app, workflow)
    assert flow is not None, "its options were found"
    start = Start(
        flow=flow,
        events=(Taken(event, place, CRON),),
        near=False,
        caller=CRON,
        origin=origin,
        tick=tick,
    )
    take_start(tx, engine, slot, start, absorb=False)


def arm_schedules(tx: Transition, engine: EngineContext) -> None:
    """After a registration: arm what is new or changed, disarm what is gone."""
    wanted: set[tuple[str, str]] = set()
    for app, options in engine.registrations.workflows():
        slot = home_slot(app, options.name)
        if options.cron is None or partition_of(slot, tx.partitions) != tx.partition:
            continue
        wanted.add((app, options.name))
        text = schedule_text(options.cron)
        armed = tx.state.get(tables.CRON, (slot, app, options.name))
        if armed is None or armed.schedule != text:
            due = next_tick(options.cron, tx.now)
            arm = facts.CronArmed(app=app, workflow=options.name, due=due, schedule=text)
            tx.emit(slot, arm)
    for key, _ in scan_all(tx.state, tables.CRON):
        slot, app, name = int(key[0]), str(key[1]), str(key[2])
        if (app, name) not in wanted:
            tx.emit(slot, facts.CronArmed(app=app, workflow=name, due=None, schedule=""))
