"""Lines for people: which step or handler failed, and where in their code.

They go to the logger `duraton.runs` at INFO, which `duraton dev` and
`duraton worker --verbose` show; the record of what failed is the engine's.
"""

import logging
import re
import time

from duraton_schemas.wire.frames import FrameError

LINES_PER_SECOND_MAX = 10
"""More is a storm, whose lines nobody reads and each of which costs the runner time."""
MESSAGE_LENGTH_MAX = 300

_log = logging.getLogger("duraton.runs")
_FRAME = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)


class FailureLog:
    """Tells of failures, at most so many a second."""

    def __init__(self) -> None:
        self._second = 0
        self._told = 0
        self._left_out = 0

    def tell(self, run: str, workflow: str, what: str, error: FrameError) -> None:
        """Tell of one failure.

        Args:
            run: The run's id.
            workflow: Its workflow's name.
            what: What failed, such as `step 'charge', attempt 1`.
            error: What it failed with.
        """
        if not _log.isEnabledFor(logging.INFO):
            return
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._told = second, 0
        self._told += 1
        if self._told > LINES_PER_SECOND_MAX:
            self._left_out += 1
            return
        more = f" (and {self._left_out} failures before it)" if self._left_out else ""
        self._left_out = 0
        frames = _FRAME.findall(error.stack or "")
        where = f" at {frames[-1][0]}:{frames[-1][1]}" if frames else ""
        text = f"{error.name}: {error.message}"[:MESSAGE_LENGTH_MAX]
        # What a message holds must not steer the terminal.
        shown = "".join(each if each.isprintable() else " " for each in text + where)
        _log.info("%s %s: %s failed: %s%s", workflow, run, what, shown, more)
