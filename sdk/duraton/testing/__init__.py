"""The whole engine inside a test, on virtual time.

Example:
    >>> async with Engine(app) as engine:
    ...     [answer] = await engine.send("order.created", {"orderId": 1})
    ...     await engine.advance("30s")
    ...     run = await engine.run(answer.run_id)
    ...     assert run.status == "completed"
"""

from duraton.errors import RefusedError
from duraton.testing.engine import Engine
from duraton.testing.shown import Answer, Shown
from duraton_engine.settings import Settings

__all__ = ["Answer", "Engine", "RefusedError", "Settings", "Shown"]
