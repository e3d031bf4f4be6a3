"""Cron schedules: the next tick after a time (P55)."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from duraton_schemas.errors import OptionsError
from duraton_schemas.options import Cron


def next_tick(cron: Cron, after_ms: int) -> int | None:
    """The first tick after a time, or None where there is none within fifty years.

    Daylight saving is treated as vixie cron does: a skipped hour fires once after
    it, a repeated hour once.

    Args:
        cron: The schedule.
        after_ms: Milliseconds since 1970 UTC.

    Raises:
        OptionsError: The schedule or its zone cannot be read.
    """
    try:
        zone = ZoneInfo(cron.tz)
        ticks = CronSim(cron.expr, datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(zone))
        tick = next(ticks)
    except StopIteration:
        return None
    except CronSimError as error:
        raise OptionsError(f"cron {cron.expr!r}: {error}") from error
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise OptionsError(f"cron time zone {cron.tz!r} is not known") from error
    return int(tick.timestamp() * 1000)


def schedule_text(cron: Cron) -> str:
    """A schedule's canonical text, to see whether it changed."""
    return f"{cron.expr} {cron.tz}"
