"""Nobody waits while all that could hold them is open; in the end nothing is left."""

from fractions import Fraction

LEFT = (
    "runs",
    "inputs",
    "outputs",
    "queue",
    "waiting",
    "live",
    "held",
    "held_posts",
    "waits",
    "lanes",
    "lines",
    "at_runner",
    "gates",
    "counts",
    "working",
    "open",
    "windows",
    "buffers",
    "buffered",
    "firings",
    "held_windows",
    "joined",
    "asked",
    "probes",
    "places",
    "holders",
    "asks",
    "ask_lines",
)
"""Tables that are empty once nothing is under way."""


def reasons(checks, run, now):
    """What holds a queued run back, worked out from the facts alone."""
    found = []
    if checks.budget_rests(run):
        found.append("budget")
    if checks.stated(run, "tokenThrottle") and run.first:
        bucket = checks.buckets.get((run.home, checks.scope(run, "tokenThrottle")))
        if bucket is not None and now < bucket.opens:
            found.append("tokenThrottle")
    throttle = checks.stated(run, "throttle")
    if throttle and run.first:
        last = checks.throttled.get((run.home, checks.scope(run, "throttle")))
        if last is not None and now < last + Fraction(throttle["perMs"], throttle["limit"]):
            found.append("throttle")
    limit = checks.stated(run, "concurrency")
    if limit and len(checks.executing(run, "concurrency")) >= limit["limit"]:
        found.append("concurrency")
    together = checks.stated(run, "together")
    stops = bool(together) and together.get("then") == "stop" and run.first
    takes_over = waits_for_ceiling = False
    if together and not together.get("group"):
        works = checks.executing(run, "together")
        if len(works) >= together.get("max", 10):
            takes_over = stops and bool(works)
            # It may have asked for a place before others filled its scope: it keeps its turn.
            waits_for_ceiling = takes_over and max(each.since for each in works) > run.created
            if not takes_over:
                found.append("together")
    for key in checks.keys(run):
        most = checks.limit(key)
        if most is None or len(checks.under(key)) < most:
            continue
        if takes_over and not waits_for_ceiling:
            continue
        own = [each for each in checks.under(key) if each.home == run.home and each.kind == "main"]
        if key != "ceiling" and stops and own:
            takes_over = True
            continue
        found.append(key)
    return found


def stuck(checks, now, tick):
    """Who waits for nothing, though all has settled."""
    found = checks.unjust_budgets(now, tick)
    for run in checks.unended.values():
        if run.queued and not run.paused and not reasons(checks, run, now):
            found.append(f"{run.label} waits, and nothing holds it")
    for gathered in checks.open.values():
        if gathered.due <= now:
            found.append(f"{gathered} is overdue")
    for (partition, home, *_), gathered in checks.held.items():
        if not holds(checks, partition, home, gathered):
            found.append(f"{gathered} is held by nothing")
    found.extend(f"{owed} came to nothing" for owed in checks.unpaid())
    return found


def holds(checks, partition, home, gathered):
    """Whether a held firing has to be (P15, P27)."""
    controls = checks.registries[partition].controls(home)
    event = checks.events[gathered.places[0]]
    single, together = controls.get("singleton"), controls.get("together")
    same = [each for each in checks.unended.values() if each.home == home and each.kind == "main"]
    if single and single.get("mode", "skip") == "skip":
        scope = checks.scope_in(controls, "singleton", event)
        if any(checks.scope(each, "singleton") == scope for each in same):
            return True
    if together and together.get("then") == "refuse":
        scope = checks.scope_in(controls, "together", event)
        if together.get("group"):
            key = (together["group"], None if scope is None else scope[1])
            return len(checks.under(key)) >= checks.limit(key)
        works = [e for e in same if e.executing and checks.scope(e, "together") == scope]
        return len(works) >= together.get("max", 10)
    return False


def left_over(core):
    """Rows that should be gone."""
    return [
        (processor.partition, table, key, value)
        for processor in core.processors
        for table, key, value in processor.state.dump()
        if table in LEFT
    ]
