"""The filter of an act on many runs: the words of `GET /runs`, with what an act needs."""

from collections.abc import Mapping
from typing import Any

from duraton_api.acts.carrying import ENDED
from duraton_api.errors import BadParameterError
from duraton_api.view.filters import STATUSES, RunFilter
from duraton_api.view.times import read_time
from duraton_engine.commands.run_job import CANCEL, REPLAY

FIELDS = ("status", "workflow", "app", "since", "until", "q")
_UNENDED = tuple(status for status in STATUSES if status not in ENDED)
_ALLOWED = {REPLAY: tuple(s for s in STATUSES if s in ENDED), CANCEL: _UNENDED}
_DEFAULT = {REPLAY: ("failed",), CANCEL: _UNENDED}


def bulk_filter(act: str, given: Mapping[str, Any]) -> RunFilter:
    """Which runs an act is about.

    A filter names at least one field, so that nobody acts on everything by leaving it
    out. Without a status a replay means failed runs, a cancel all that have not ended.

    Args:
        act: `replay` or `cancel`.
        given: The filter's fields, as `GET /runs` has them.

    Raises:
        BadParameterError: A field cannot be read, or none is given.
    """
    if not given:
        raise BadParameterError(f"name at least one of {', '.join(FIELDS)}")
    return RunFilter(
        statuses=_statuses(act, given.get("status")),
        workflow=given.get("workflow"),
        app=given.get("app"),
        since=_moment(given, "since"),
        until=_moment(given, "until"),
        q=(given.get("q") or "").strip() or None,
    )


def _statuses(act: str, text: str | None) -> tuple[str, ...]:
    if text is None:
        return _DEFAULT[act]
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        if word not in _ALLOWED[act]:
            raise BadParameterError(
                f"status: {word!r} cannot be said of runs to {act}; "
                f"it is one of {', '.join(_ALLOWED[act])}"
            )
    return words


def _moment(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    return None if value is None else read_time(value, name)
