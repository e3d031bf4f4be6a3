"""What a command's own process logs: plain lines on stderr."""

import logging
import sys


def log_to_stderr(level: int) -> None:
    """Log to stderr from a level on; libraries from WARNING on at least."""
    logging.basicConfig(
        level=max(level, logging.WARNING),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    logging.getLogger("duraton").setLevel(level)
