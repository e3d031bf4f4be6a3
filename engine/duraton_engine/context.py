"""What every decision has at hand besides its transition."""

from dataclasses import dataclass, field

from duraton_engine.registrations import Registrations
from duraton_engine.room import Room
from duraton_engine.settings import Settings


@dataclass
class EngineContext:
    """One partition's engine.

    Attributes:
        settings: Limits and delays.
        room: The node's runners, in memory.
        registrations: What this partition decides by.
        unsettled: Runner processes whose tokens were found at start and that have
            not said hello since.
    """

    settings: Settings
    room: Room
    registrations: Registrations = field(default_factory=Registrations)
    unsettled: set[str] = field(default_factory=set)
