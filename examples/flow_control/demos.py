"""The demos: what is sent for each control, what is shown of it, and what must hold.

`DEMOS` is the table; one more control is one more entry, and its workflow in `workflows.py`.
What must hold are counts, orders and least distances, never how fast anything was.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chart import Row, peak
from follow import Engine, Event, Run, Seen, ShowError, moment
from workflows import LOOKS, TOKENS_A_CALL

HELD_MS = 5_000
"""A budget holds from one look to the next, which is 10 s; what was under way ends first."""

Check = tuple[bool, str]
"""Whether something holds, and what it is."""

STARTS, SHED, EVENTS, WORKING = "green", "red", "dim", "cyan"


class Load:
    """Sends a demo's events; keys are of this showing alone, so that none before it counts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mark = secrets.token_hex(3)
        self.events: list[Event] = []

    def own(self, word: str) -> str:
        return f"{word}-{self._mark}"

    async def send(self, *events: tuple[str, Mapping[str, Any]]) -> None:
        """Send events in one POST."""
        found = await self._engine.client.send_many(events)
        for (name, data), each in zip(events, found, strict=True):
            if each["pending"] or not each["recorded"]:
                raise ShowError("the engine has too much to do to answer within 5 s")
            self.events.append(Event(each["eventId"], name, data, each["answers"]))


def answered_runs(events: Sequence[Event], runs: Sequence[Run]) -> bool:
    """Whether every run is there that answers named."""
    named = {answer["runId"] for event in events for answer in event.answers if "runId" in answer}
    return named <= {run.id for run in runs}


@dataclass(frozen=True)
class Demo:
    """One control.

    Attributes:
        name: As `--only` takes it.
        workflows: Their options are shown.
        see: What to see, in one sentence.
        load: Sends the events.
        rows: The chart.
        holds: What must hold.
        complete: Whether all runs are there that will be.
        ceiling: The project's, while it goes on; such a demo goes on alone.
    """

    name: str
    workflows: tuple[str, ...]
    see: str
    load: Callable[[Load], Awaitable[None]]
    rows: Callable[[Seen], list[Row]]
    holds: Callable[[Seen], list[Check]]
    complete: Callable[[Sequence[Event], Sequence[Run]], bool] = answered_runs
    ceiling: int = 0


# What several of them need --------------------------------------------------------------


def starts(runs: Sequence[Run], label: str = "starts") -> Row:
    return Row(label, at=[run.started for run in runs if run.started is not None], style=STARTS)


def events(sent: Sequence[Event], label: str = "events", style: str = EVENTS) -> Row:
    return Row(label, at=[event.at for event in sent], style=style)


def shed(seen: Seen, outcome: str) -> Row:
    return events([event for event in seen.events if event.was(outcome)], outcome, SHED)


def working(runs: Sequence[Run], label: str = "at work") -> Row:
    return Row(label, spans=spans(runs), style=WORKING)


def spans(runs: Sequence[Run]) -> list[tuple[int, int]]:
    return [(r.started, r.ended) for r in runs if r.started is not None and r.ended is not None]


def about(seen: Seen, key: str, value: str) -> list[Run]:
    """The runs of events whose data has that value, marked as this showing's own or not."""
    wanted = {e.id for e in seen.events if str(e.data[key]).partition("-")[0] == value}
    return [run for run in seen.runs if run.event in wanted]


def none_lost(seen: Seen) -> Check:
    done = sum(run.status == "completed" for run in seen.runs)
    return done == len(seen.events), f"{len(seen.events)} events, {done} runs completed"


def counted(seen: Seen, outcome: str) -> Check:
    """Each event started a run or had that outcome, some of them the latter."""
    none = sum(event.was(outcome) for event in seen.events)
    ran = len(seen.started)
    text = f"{len(seen.events)} events, {ran} starts, {none} answered {outcome}"
    return 0 < none == len(seen.events) - ran, text


# Held back ------------------------------------------------------------------------------


async def load_concurrency(load: Load) -> None:
    ada, bob = load.own("ada"), load.own("bob")
    names = [ada] * 9 + [bob] * 2
    await load.send(*(("invoice.wanted", {"customer": name}) for name in names))


def hold_concurrency(seen: Seen) -> list[Check]:
    ada, bob = about(seen, "customer", "ada"), about(seen, "customer", "bob")
    most = peak(spans(ada))
    first_wave = [run.started or 0 for run in ada[:4]]
    beside = len(first_wave) == 4 and all((run.started or 0) < first_wave[3] for run in bob)
    return [
        none_lost(seen),
        (most == 3, f"at most {most} of ada's at once"),
        (beside, "bob's do not wait for ada's"),
    ]


async def load_throttle(load: Load) -> None:
    await load.send(*(("mail.wanted", {"to": number}) for number in range(8)))


def hold_throttle(seen: Seen) -> list[Check]:
    at = [run.started or 0 for run in seen.started]
    least = min((after - before for before, after in pairwise(at)), default=0)
    return [none_lost(seen), (least >= 400, f"{least} ms or more from each start to the next")]


async def load_priority(load: Load) -> None:
    newsletters = [("newsletter.wanted", {"to": number}) for number in range(6)]
    alarms = [("alarm.raised", {"number": number}) for number in range(3)]
    await load.send(*newsletters, *alarms)


def rows_priority(seen: Seen) -> list[Row]:
    alarms = [run for run in seen.runs if run.workflow == "alarm.raised"]
    others = [run for run in seen.runs if run.workflow != "alarm.raised"]
    return [starts(others, "newsletters"), starts(alarms, "alarms"), working(seen.runs)]


def hold_priority(seen: Seen) -> list[Check]:
    alarms = [run for run in seen.runs if run.workflow == "alarm.raised"]
    came = max((run.created for run in alarms), default=0)
    last = max((run.started or 0 for run in alarms), default=0)
    others = [run.started or 0 for run in seen.runs if run.workflow != "alarm.raised"]
    before = sum(came <= started < last for started in others)
    most = peak(spans(seen.runs))
    return [
        none_lost(seen),
        (most <= 2, f"at most {most} at once in the whole project"),
        (before <= 2, f"{before} of 6 newsletters, which came first, start before the alarms"),
    ]


async def load_tokens(load: Load) -> None:
    names = [load.own("ada")] * 6 + [load.own("bob")]
    question = {"question": "the weather"}
    await load.send(*(("question.asked", {**question, "user": name}) for name in names))


def hold_tokens(seen: Seen) -> list[Check]:
    ada, bob = about(seen, "user", "ada"), about(seen, "user", "bob")
    at = [run.started or 0 for run in ada]
    # A start needs a level above 0: 200 at first, 0.2 more each millisecond, less what was used.
    earliest = [(number * TOKENS_A_CALL - 200) / 0.2 for number in range(len(at))]
    slow = all(when - at[0] >= least for when, least in zip(at, earliest, strict=True))
    fresh = bool(at[2:]) and all((run.started or 0) < at[2] for run in bob)
    return [
        none_lost(seen),
        (slow, "ada's start no faster than 200 tokens a second pay for"),
        (fresh, "bob, who has used none, does not wait"),
    ]


# Shed and taken together ----------------------------------------------------------------


async def load_rate_limit(load: Load) -> None:
    for _ in range(12):
        await load.send(("hook.called", {"ip": load.own("10.0.0.7")}))
        await asyncio.sleep(0.12)


def hold_rate_limit(seen: Seen) -> list[Check]:
    dropped = [event.was("dropped") for event in seen.events]
    cliff = dropped == [False] * 5 + [True] * 7
    return [counted(seen, "dropped"), (cliff, "the first 5 run, and nothing after them")]


async def load_debounce(load: Load) -> None:
    for version in range(1, 9):
        await load.send(("document.edited", {"document": load.own("a"), "version": version}))
        await asyncio.sleep(0.2)


def last_fired(sent: Sequence[Event], runs: Sequence[Run]) -> bool:
    return any(run.event == sent[-1].id for run in runs)


def hold_debounce(seen: Seen) -> list[Check]:
    # Each is the last before 800 ms of quiet; on a machine that halts there may be two.
    lasts = [
        event.data["version"]
        for event, after in zip(seen.events, [*seen.events[1:], None], strict=True)
        if after is None or after.at - event.at >= 800
    ]
    saved = [run.detail["output"] for run in seen.runs]
    versions = ", ".join(map(str, saved))
    return [(saved == lasts, f"{len(seen.events)} events, one start, with version {versions}")]


async def load_batch(load: Load) -> None:
    site = load.own("docs")
    pages = iter(range(12))
    for size in (5, 5, 2):
        await load.send(
            *(("page.changed", {"site": site, "page": next(pages)}) for _ in range(size))
        )
        await asyncio.sleep(0.4)


def three_fired(_sent: Sequence[Event], runs: Sequence[Run]) -> bool:
    return len(runs) == 3


def hold_batch(seen: Seen) -> list[Check]:
    batches = [run.detail["output"] or [] for run in seen.runs]
    sizes = [len(batch) for batch in batches]
    whole = [page for batch in batches for page in batch] == list(range(12))
    return [
        (sizes == [5, 5, 2], f"{len(seen.events)} events, batches of {sizes}"),
        (whole, "each event in one of them, in order"),
    ]


async def load_singleton(load: Load) -> None:
    one = ("report.wanted", {"account": load.own("a")})
    await load.send(one, one)
    for _ in range(6):
        await asyncio.sleep(0.25)
        await load.send(one)


def hold_singleton(seen: Seen) -> list[Check]:
    most = peak([(run.created, run.ended or run.created) for run in seen.runs])
    ours = {run.id for run in seen.runs}
    told = all(e.answers[0].get("blockedBy") in ours for e in seen.events if e.was("skipped"))
    return [
        counted(seen, "skipped"),
        (most == 1, "never a second run before the first has ended"),
        (told, "each skipped start is told which run is in its way"),
    ]


async def load_idempotency(load: Load) -> None:
    for _ in range(3):
        await load.send(*(("order.placed", {"order": load.own(f"o{n}")}) for n in range(3)))
        await asyncio.sleep(0.3)


def hold_idempotency(seen: Seen) -> list[Check]:
    orders = sorted(str(e.data["order"]) for e in seen.events if not e.was("deduped"))
    once = len(set(orders)) == len(orders) == 3
    return [counted(seen, "deduped"), (once, f"{len(orders)} runs, one for each order")]


# Together -------------------------------------------------------------------------------


async def load_wait(load: Load) -> None:
    team = {"team": load.own("red")}
    names = ("parcel.packed", "parcel.labelled")
    await load.send(*((name, team) for _ in range(4) for name in names))


def rows_wait(seen: Seen) -> list[Row]:
    packed = [run for run in seen.runs if run.workflow == "parcel.packed"]
    labelled = [run for run in seen.runs if run.workflow == "parcel.labelled"]
    return [starts(packed, "packed"), starts(labelled, "labelled"), working(seen.runs)]


def hold_wait(seen: Seen) -> list[Check]:
    most = peak(spans(seen.runs))
    return [none_lost(seen), (most == 2, f"at most {most} of both workflows at once")]


async def load_refuse(load: Load) -> None:
    await load.send(*[("export.wanted", {"account": load.own("a")})] * 5)


def hold_refuse(seen: Seen) -> list[Check]:
    codes = [answer.get("refused") for event in seen.events for answer in event.answers]
    first = codes == [None, None, "T7103", "T7103", "T7103"]
    return [counted(seen, "refused"), (first, "those over 2 are refused with T7103")]


async def load_stop(load: Load) -> None:
    for seconds in (30, 30, 30, 0.6):
        await load.send(("branch.pushed", {"branch": load.own("main"), "seconds": seconds}))
        await asyncio.sleep(0.4)


def rows_stop(seen: Seen) -> list[Row]:
    stopped = [run.ended or 0 for run in seen.runs if run.status == "cancelled"]
    return [starts(seen.runs), Row("stopped", at=stopped, style=SHED), working(seen.runs)]


def hold_stop(seen: Seen) -> list[Check]:
    statuses = [run.status for run in seen.runs]
    newest = statuses == ["cancelled"] * 3 + ["completed"]
    most = peak(spans(seen.runs))
    return [
        (newest, f"{len(seen.events)} events, each stopped the run before it; the last completed"),
        (most == 1, f"at most {most} at once"),
    ]


async def load_join(load: Load) -> None:
    a, b = (("order.shipped", {"order": load.own(order)}) for order in ("a", "b"))
    await load.send(a, a, b)
    await asyncio.sleep(0.2)
    await load.send(a, b)


def hold_join(seen: Seen) -> list[Check]:
    runs = {run.id: run.event for run in seen.runs}
    orders = {event.id: event.data["order"] for event in seen.events}
    same = all(
        orders.get(runs.get(answer.get("runId", ""), "")) == event.data["order"]
        for event in seen.events
        for answer in event.answers
    )
    return [counted(seen, "joined"), (same, "each is answered the run of its own order")]


# AI spend -------------------------------------------------------------------------------


async def load_cap(load: Load) -> None:
    await load.send(("story.wanted", {"about": "a log"}))


def calls(seen: Seen) -> list[dict[str, Any]]:
    steps = [step for run in seen.runs for step in run.detail["steps"]]
    return [step for step in steps if step["status"] == "completed" and step["kind"] == "ai"]


def rows_cap(seen: Seen) -> list[Row]:
    ends = [moment(step["endedAt"]) for step in calls(seen)]
    halted = [run.ended for run in seen.runs if run.ended is not None]
    return [
        Row("calls", at=ends, style=STARTS),
        Row("halted", at=halted, style=SHED),
        working(seen.runs),
    ]


def hold_cap(seen: Seen) -> list[Check]:
    made, used = len(calls(seen)), sum(run.detail["spend"]["tokens"] for run in seen.runs)
    ends = [(run.status, (run.detail["error"] or {}).get("code")) for run in seen.runs]
    return [
        (made == 3 and used == 3 * TOKENS_A_CALL, f"{made} of 10 calls, {used} tokens"),
        (ends == [("failed", "cap-reached")], "the run failed with cap-reached"),
    ]


async def load_budget(load: Load) -> None:
    await load.send(*(("topic.followed", {"topic": topic}) for topic in ("logs", "tea", "rain")))


def rows_budget(seen: Seen) -> list[Row]:
    return [
        Row("calls", at=[moment(step["endedAt"]) for step in calls(seen)], style=STARTS),
        Row("held", spans=[run.held for run in seen.runs if run.held is not None], style=SHED),
    ]


def hold_budget(seen: Seen) -> list[Check]:
    held = sum(run.held is not None for run in seen.runs)
    made = len(calls(seen))
    ends = sorted(moment(step["endedAt"]) for step in calls(seen))
    longest = max((later - end for end, later in pairwise(ends)), default=0)
    return [
        none_lost(seen),
        (held == len(seen.events), f"all {held} were held, paused by the budget"),
        (longest >= HELD_MS, f"no call for {HELD_MS / 1000:.0f} s or more, then all went on"),
        (made == LOOKS * len(seen.events), f"{made} calls, none of them twice"),
    ]


DEMOS = (
    Demo(
        "concurrency",
        ("invoice.wanted",),
        "Ada's nine come in waves of three; bob has a limit of his own.",
        load_concurrency,
        lambda seen: [
            starts(about(seen, "customer", "ada"), "ada"),
            working(about(seen, "customer", "ada"), "ada at work"),
            starts(about(seen, "customer", "bob"), "bob"),
        ],
        hold_concurrency,
    ),
    Demo(
        "throttle",
        ("mail.wanted",),
        "All come at once and start evenly spaced, one every perMs / limit; none is lost.",
        load_throttle,
        lambda seen: [events(seen.events), starts(seen.runs)],
        hold_throttle,
    ),
    Demo(
        "rateLimit",
        ("hook.called",),
        "A cliff: up to the limit each starts at once, and then nothing does for a minute.",
        load_rate_limit,
        lambda seen: [starts(seen.runs), shed(seen, "dropped")],
        hold_rate_limit,
    ),
    Demo(
        "debounce",
        ("document.edited",),
        "A burst leads to one start, after 800 ms of quiet, with the last event.",
        load_debounce,
        lambda seen: [events(seen.events), starts(seen.runs)],
        hold_debounce,
        last_fired,
    ),
    Demo(
        "batch",
        ("page.changed",),
        "Five events make a full batch and start it; the last two wait for the time-out.",
        load_batch,
        lambda seen: [events(seen.events), starts(seen.runs)],
        hold_batch,
        three_fired,
    ),
    Demo(
        "singleton",
        ("report.wanted",),
        "What comes while a run has not ended is skipped.",
        load_singleton,
        lambda seen: [starts(seen.runs), shed(seen, "skipped"), working(seen.runs)],
        hold_singleton,
    ),
    Demo(
        "idempotency",
        ("order.placed",),
        "Each order is sent three times and starts one run.",
        load_idempotency,
        lambda seen: [events(seen.events), starts(seen.runs), shed(seen, "deduped")],
        hold_idempotency,
    ),
    Demo(
        "together-wait",
        ("parcel.packed", "parcel.labelled"),
        "Two workflows of one group share two places.",
        load_wait,
        rows_wait,
        hold_wait,
    ),
    Demo(
        "together-refuse",
        ("export.wanted",),
        "Two work, and starts over that are refused at once.",
        load_refuse,
        lambda seen: [starts(seen.runs), shed(seen, "refused"), working(seen.runs)],
        hold_refuse,
    ),
    Demo(
        "together-stop",
        ("branch.pushed",),
        "Each start stops the run that works, and takes its place.",
        load_stop,
        rows_stop,
        hold_stop,
    ),
    Demo(
        "together-join",
        ("order.shipped",),
        "A start whose order has a run that has not ended is answered with that run.",
        load_join,
        lambda seen: [starts(seen.runs), shed(seen, "joined"), working(seen.runs)],
        hold_join,
    ),
    Demo(
        "tokenThrottle",
        ("question.asked",),
        "Ada's tokens are used up by her first two, so her others are spread; bob's are fresh.",
        load_tokens,
        lambda seen: [
            starts(about(seen, "user", "ada"), "ada"),
            starts(about(seen, "user", "bob"), "bob"),
        ],
        hold_tokens,
    ),
    Demo(
        "cap",
        ("story.wanted",),
        "The call that reaches the cap is the last; the next one is never made.",
        load_cap,
        rows_cap,
        hold_cap,
    ),
    Demo(
        "budget",
        ("topic.followed",),
        "Over 600 tokens in 8 s all rest where they are; as the spend rolls off, all go on.",
        load_budget,
        rows_budget,
        hold_budget,
    ),
    Demo(
        "priority",
        ("newsletter.wanted", "alarm.raised"),
        "Under a ceiling of two for the whole project, alarms overtake what waits.",
        load_priority,
        rows_priority,
        hold_priority,
        ceiling=2,
    ),
)
