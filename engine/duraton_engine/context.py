"""What every decision has at hand besides its transition."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from duraton_engine.registrations import Registrations
from duraton_engine.room import Room
from duraton_engine.settings import Settings
from duraton_schemas.records.messages import PlaceAsked
from duraton_streams.state.table import Key


@dataclass
class EngineContext:
    """One partition's engine.

    Attributes:
        settings: Limits and delays.
        room: The node's runners, in memory.
        registrations: What this partition decides by.
        unsettled: Runner processes whose tokens were found at start and that have
            not said hello since.
        asking: Lanes that may ask the project slot for places, by (slot, app, workflow)
            and name.
        openings: Gates that this transition may have opened, by (slot, app, workflow).
        returning: Places that this transition gives back: the workflow, and gate keys.
        wanted: What it asks of the project slot, with the seq of the run that asks.
    """

    settings: Settings
    room: Room
    registrations: Registrations = field(default_factory=Registrations)
    unsettled: set[str] = field(default_factory=set)
    asking: dict[tuple[Key, str], None] = field(default_factory=dict)
    openings: dict[Key, dict[str, None]] = field(default_factory=dict)
    returning: list[tuple[Key, tuple[str, ...]]] = field(default_factory=list)
    wanted: list[tuple[int, int, PlaceAsked]] = field(default_factory=list)

    def opened(self, of: Key, *gates: str) -> None:
        """Note gates of a workflow that may have opened; `start_opened` looks at them."""
        if gates:
            self.openings.setdefault(of, {}).update(dict.fromkeys(gates))

    def give_back(self, of: Key, keys: Iterable[str]) -> None:
        """Note places under gate keys that a run no longer takes, or never took."""
        self.returning.append((of, tuple(keys)))

    def clear(self) -> None:
        """Forget what a transition noted; another one begins, or it was undone."""
        self.openings.clear()
        self.asking.clear()
        self.returning.clear()
        self.wanted.clear()
