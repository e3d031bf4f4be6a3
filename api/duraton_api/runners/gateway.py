"""Both ways to runners behind one door: the hub's connections and the calls to served apps."""

from collections.abc import Sequence

from duraton_api.runners.hub import Hub
from duraton_api.runners.serve import ServeCaller
from duraton_engine.effects import ToRunner
from duraton_engine.room import SERVED_PREFIX


class Gateway:
    """Hands a batch's frames to the side that each boot belongs to.

    Args:
        hub: The connections.
        serve: The calls.
    """

    def __init__(self, hub: Hub, serve: ServeCaller) -> None:
        self.hub = hub
        self.serve = serve

    def deliver(self, effects: Sequence[ToRunner]) -> None:
        """Hand on the frames of a committed batch, in their order for each boot."""
        served = [effect for effect in effects if effect.boot.startswith(SERVED_PREFIX)]
        if not served:
            self.hub.deliver(effects)
            return
        self.serve.deliver(served)
        if len(served) < len(effects):
            self.hub.deliver([e for e in effects if not e.boot.startswith(SERVED_PREFIX)])

    async def stop(self) -> None:
        """Close every connection and give up every call; nothing of a run is lost."""
        await self.hub.stop()
        await self.serve.stop()
