"""A run as people read it: what it is, why it stands where it stands, what happened when."""

from datetime import datetime
from typing import Any, NamedTuple

from duraton_api.cli import show

VALUE_LENGTH_MAX = 200
STACK_LINES_MAX = 12


class Moment(NamedTuple):
    """Something that happened: when (ISO-8601), what, and its style."""

    at: str
    text: str
    style: str = ""


def print_run(run: dict[str, Any]) -> None:
    """Print a run's detail."""
    show.styled(
        f"{run['id']}  {run['app']}/{run['workflow']}  {run['status']}",
        show.STATUS_STYLES.get(run["status"], ""),
    )
    for word, text in _facts(run):
        show.line(f"  {word:<10}{text}")
    show.line()
    begin = _parse(run["createdAt"])
    for moment in moments(run):
        at = span((_parse(moment.at) - begin).total_seconds() * 1000)
        show.styled(f"  {at:>10}  {moment.text}", moment.style)
    error = run.get("error") or {}
    stack = (error.get("stack") or "").strip().splitlines()
    if stack:
        show.line()
        for line in stack[-STACK_LINES_MAX:]:
            show.line(f"  {line}")


def reason_of(run: dict[str, Any]) -> str:
    """Why a run does not go on, or how it failed; empty where there is nothing to say."""
    if run.get("pausedBy"):
        paused = run["pausedBy"]
        error = paused.get("error")
        return f"paused by {paused['reason']}" + (f": {error['message']}" if error else "")
    if run.get("waitingFor"):
        return _waiting(run["waitingFor"])
    if run.get("error"):
        error = run["error"]
        return f"{error.get('name') or 'Error'}: {error['message']}"
    return ""


def moments(run: dict[str, Any]) -> list[Moment]:
    """What happened, in order of time."""
    found = [Moment(run["createdAt"], "created")]
    if run["startedAt"]:
        runner = f" at {run['runner']}" if run.get("runner") else ""
        found.append(Moment(run["startedAt"], f"started{runner}"))
    for step in run["steps"]:
        found += _of_step(step)
    found += [
        Moment(each["at"], f"handler failed, attempt {each['attempt']}: {_error(each)}", "red")
        for each in run["failures"]
    ]
    if run["endedAt"]:
        ended = run["status"]
        if ended == "failed" and run.get("error"):
            ended += f": {reason_of(run)}"
        found.append(Moment(run["endedAt"], ended, show.STATUS_STYLES.get(run["status"], "")))
    if run.get("onFailure"):
        handler = run["onFailure"]
        found.append(Moment(run["endedAt"], f"onFailure {handler['id']}  {handler['status']}"))
    # Stable, so that what happened in one instant keeps the order of its kinds.
    return sorted(found, key=lambda moment: _parse(moment.at))


def span(ms: float) -> str:
    """A length of time in the unit that suits it."""
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(round(ms / 1_000), 60)
    hours, minutes = divmod(minutes, 60)
    if hours == 0:
        return f"{minutes} m {seconds:02} s"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours:02} h" if days else f"{hours} h {minutes:02} m"


def _facts(run: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines above the timeline: a word and a text each."""
    length = VALUE_LENGTH_MAX
    found = [("created", run["createdAt"])]
    for trigger in run["triggers"]:
        told = f"{trigger['name']} {show.short(trigger.get('data'), length)}"
        found.append(("event", f"{told}  ({trigger['eventId']})"))
    if run.get("tick"):
        found.append(("tick", run["tick"]))
    if run.get("parentRun"):
        parent = run["parentRun"]
        found.append(("parent", f"{parent['id']}, step {parent.get('step')}"))
    if run.get("failedRun"):
        found.append(("handles", f"the failure of {run['failedRun']}"))
    if run["replayOf"]:
        step = f", from step {run['replayStep']}" if run["replayStep"] else ""
        job = f", by {run['job']}" if run["job"] else ""
        found.append(("replays", run["replayOf"] + step + job))
    for replay in run["replays"]:
        step = f", from step {replay['step']}" if replay["step"] else ""
        found.append(("replayed", f"{replay['id']}  {replay['status']}{step}"))
    if run["output"] is not None:
        found.append(("output", show.short(run["output"], length)))
    reason = reason_of(run)
    if reason:
        word = "paused" if run.get("pausedBy") else "waits" if run.get("waitingFor") else "error"
        found.append((word, reason))
    spent = _spend(run["spend"])
    if spent:
        found.append(("spend", spent))
    if run["discarded"]:
        found.append(("discarded", f"{run['discarded']} late answers"))
    if run["stepsTruncated"]:
        found.append(("steps", f"the first {len(run['steps'])} of {run['stepCount']}"))
    journal = run["journal"]
    place = f"{journal['topic']}/{journal['partition']}/{journal['lastOffset']}"
    found.append(("journal", f"{place}, facts {journal['firstSeq']} to {journal['lastSeq']}"))
    return found


def _of_step(step: dict[str, Any]) -> list[Moment]:
    found = [
        Moment(each["at"], f"{step['id']} failed, attempt {each['attempt']}: {_error(each)}", "red")
        for each in step["errors"]
    ]
    status = step["status"]
    if status == "completed" and step["endedAt"]:
        tried = f", attempt {step['attempts']}" if step["attempts"] > 1 else ""
        told = f"{step['id']} carried" if step["carried"] else f"{step['id']} completed{tried}"
        spent = _spend(step.get("spend") or {})
        told += f" ({spent})" if spent else ""
        if step["kind"] not in ("sleep", "send"):
            told += f": {show.short(step['output'])}"
        found.append(Moment(step["endedAt"], told, "green"))
    elif step["startedAt"] and status not in ("completed", "failed"):
        until = None if status == "cancelled" else step.get("retryAt") or step.get("due")
        told = f"{step['id']} {status}" + (f" until {until}" if until else "")
        found.append(Moment(step["startedAt"], told, "blue"))
    return found


def _spend(spend: dict[str, Any]) -> str:
    """What was spent; empty where nothing was."""
    if not (spend.get("tokens") or spend.get("knownCost") or spend.get("usageUnknown")):
        return ""
    cost = "cost unknown" if spend["cost"] is None else f"${spend['cost']:.4f}"
    more = ", some usage unknown" if spend["usageUnknown"] else ""
    return f"{spend['tokens']} tokens, {cost}{more}"


def _error(failed: dict[str, Any]) -> str:
    error = failed["error"]
    return show.short(f"{error.get('name') or 'Error'}: {error['message']}", VALUE_LENGTH_MAX)


def _waiting(waiting: dict[str, Any]) -> str:
    kind = waiting["kind"]
    told = {
        "runner": "waits for a runner that offers it and has room",
        "turn": "is looked at next",
        "concurrency": "waits for a place of its concurrency",
        "together": "waits for a place of its together",
        "throttle": "waits for its throttle",
        "tokenThrottle": "waits for its bucket of AI tokens",
        "budget": "waits for its workflow's budget",
        "project": "waits for a place of the whole project",
        "sleep": f"sleeps ({waiting.get('step')})",
        "event": f"waits for {waiting.get('event')} ({waiting.get('step')})",
        "child": f"waits for {waiting.get('run') or 'a child'} ({waiting.get('step')})",
        "backoff": f"tries {waiting.get('step') or 'again'} again",
        "invoke": "its runner was not reached",
    }.get(kind, f"waits: {kind}")
    told += _of_key(waiting)
    if waiting.get("match"):
        told += " where " + ", ".join(f"{k} is {v}" for k, v in waiting["match"].items())
    if waiting.get("until"):
        told += f" until {waiting['until']}"
    if waiting.get("reason"):
        told += f": {waiting['reason']}"
    if waiting.get("others"):
        told += f", and {waiting['others']} more"
    return told


def _of_key(waiting: dict[str, Any]) -> str:
    """By which key and limit a queued run is held back; empty for other waits."""
    key, value, limit = waiting.get("key"), waiting.get("value"), waiting.get("limit")
    runs = "run" if limit == 1 else "runs"
    told = f", which {limit} {runs} may have" if limit is not None else ""
    if value is not None:
        told += f", where {key or 'the subject'} is {show.short(value)}"
    elif key is not None:
        told += f", where {key} is nothing"
    return told


def _parse(moment: str) -> datetime:
    return datetime.fromisoformat(moment)
