"""Writes docs/reference/errors.md from the errors' own words (`make docs`).

Codes that no class has, since they stand in the errors of runs and in refusals,
are explained below in `OTHER_CODES`.
"""

import importlib
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "errors.md"
COMPONENTS = {
    "duraton": "The SDK: what your own program meets",
    "duraton_api": "The HTTP API, the views and the command line",
    "duraton_engine": "The engine: refusals, and the errors of runs",
    "duraton_streams": "Logs, state and partitions",
    "duraton_schemas": "Records, values and registrations",
}
OTHER_CODES = {
    "duraton": {
        "draining": (
            "A served app takes no more invocations, since its server stops. It costs no invoke.",
            "Nothing: the engine tries again.",
        ),
        "message-unreadable": (
            "A served app was POSTed something else than one invocation.",
            "Let only the engine call the app's URL.",
        ),
        "nondeterministic": (
            (
                "The code changed under a running run: it called a step that does not fit what is "
                "recorded. The message names the step."
            ),
            (
                "Deploy the code that the run began with, or cancel the run. Code outside of steps "
                "must do the same each time it runs."
            ),
        ),
        "protocol-version": (
            "Engine and runner speak different versions of the protocol.",
            "Upgrade the older of the two.",
        ),
        "signature-refused": (
            "A served app was POSTed something without a valid signature of its key.",
            "Give engine and runner one signing key, and keep their clocks within five minutes.",
        ),
        "superseded": (
            "A newer request about the same run took this one's place at a served app.",
            "Nothing: the newer one is answered.",
        ),
        "url-unusable": (
            "The engine's address is no address.",
            "Write it as http://HOST:PORT.",
        ),
    },
    "duraton_api": {
        "data-missing": (
            "There is no log, or no view, in the directory that the command was given.",
            "Name the engine's directory with --data, or its brokers with --kafka.",
        ),
        "dead-letters": (
            (
                "`duraton doctor`: records that nobody can read stand on `duraton.dead-letters`, "
                "with the reason in their headers."
            ),
            "Look at them with `duraton log dump --topic dead-letters`; correct who wrote them.",
        ),
        "disk-low": (
            "`duraton doctor`: the disk of the data directory is nearly full.",
            "Make room: a commit that cannot be written stops the partition.",
        ),
        "engine-defect": (
            "The engine met something that it did not expect and closed the runner's connection.",
            "Nothing: the runner comes back. Report what the engine's log says.",
        ),
        "engine-not-ready": (
            "The engine runs and may not be given work yet: it recovers, or a partition stopped.",
            "Wait, or look at its log.",
        ),
        "engine-rebuilt": (
            (
                "A commit was in doubt, so a partition was rebuilt from its journal; the runner is "
                "asked to say hello again."
            ),
            "Nothing: the runner comes back with what it executes.",
        ),
        "engine-slow": (
            "The engine did not answer the command line in time.",
            "Look at `duraton doctor`. What was sent may have been recorded.",
        ),
        "engine-stopping": (
            "The engine stops or restarts.",
            "Nothing: runners keep what they execute and come back.",
        ),
        "engine-unreachable": (
            "No engine answers at the address.",
            "Start one with `duraton dev TARGET`, or name another with --url.",
        ),
        "hello-refused": (
            "A runner's first frame states what cannot work; the message names it.",
            "Correct the runner, or use an SDK of the protocol's version.",
        ),
        "not-an-engine": (
            "Something else than a Duraton engine answers at the address.",
            "Name the engine's address with --url or DURATON_URL.",
        ),
        "registration-late": (
            "The engine could not register the runner's apps in time.",
            "Nothing: the runner tries again.",
        ),
        "run-quarantined": (
            "`duraton doctor`: a run is set aside after an error of the engine's own.",
            "Report it; `duraton runs resume ID` tries again.",
        ),
        "runner-ended": (
            "`duraton dev`: the runner ended by itself.",
            "Look at what it printed last, and start again.",
        ),
        "runner-name-taken": (
            "Another live process is connected under the name that the runner was given.",
            "Stop the other process, or give each a name of its own.",
        ),
        "runner-replaced": (
            "The same process, or a newer one of its name, has made a newer connection.",
            "Nothing.",
        ),
        "runner-silent": (
            "The runner gave no sign of life for as long as it may be silent.",
            "Nothing: it comes back. If it recurs, look for code that blocks the event loop.",
        ),
        "runner-slow": (
            "The runner does not take what it is sent, so its connection was closed.",
            "Nothing: it comes back. If it recurs, look for code that blocks the event loop.",
        ),
        "runner-unreadable": (
            "A message is none of the protocol's.",
            "Use an SDK of the protocol's version.",
        ),
        "runners-full": (
            "As many runners are connected as the engine takes.",
            "Run fewer processes with a higher capacity each.",
        ),
        "usage": (
            "The command was written in a way that it does not take; exit status 2.",
            "See the command's `--help`.",
        ),
        "websocket-needed": (
            "The path takes a runner's WebSocket, not a plain HTTP request.",
            "Use `connect(app, url)` of the SDK, or a WebSocket client.",
        ),
        "workflow-unoffered": (
            "`duraton doctor`: no runner executes a workflow that is registered.",
            "Start its worker; its runs wait.",
        ),
    },
    "duraton_engine": {
        "cancelled": ("The run was cancelled, by a person or with its parent.", ""),
        "carry-incomplete": (
            (
                "A replay came without all of what the old run had, or more than ten minutes after "
                "it; nothing was made."
            ),
            "Ask for the replay again.",
        ),
        "child-cancelled": (
            "The run that a step invoked was cancelled, so the step failed for good.",
            "Start the child again if it was cancelled by mistake.",
        ),
        "replaced": (
            "A newer start of the same singleton key replaced the run (`mode: cancel`).",
            "",
        ),
        "singleton-in-use": (
            "A replay's singleton key is in use by a run that has not ended; the message names it.",
            "Wait until that run ends, or cancel it.",
        ),
        "start-deduped": (
            "A step's child was not started: its idempotency key is in use.",
            "Give the child's input another key, or wait until the key's time is over.",
        ),
        "start-dropped": (
            "A step's child was not started: its workflow's rate limit shed it.",
            "Use `throttle` where starts are to wait instead.",
        ),
        "start-skipped": (
            "A step's child was not started: an unended run has its singleton key.",
            "Wait for that run's end, or use `together` with `join`.",
        ),
        "stopped": (
            "A newer start of the flow took the run's place (`together` with `then: stop`).",
            "",
        ),
        "T7103": (
            (
                "A start was refused: as many runs work as `max` of `together` allows and the "
                "flow says `then: refuse`, or it would have joined the run of another caller."
            ),
            "Start it again later, or let the flow `wait`.",
        ),
        "job-incomplete": (
            (
                "A job was begun without all of its runs, or more than ten minutes after them; it "
                "acted on nothing."
            ),
            "Ask for it again.",
        ),
        "job-not-running": (
            "No job of that id is under way: it is over, or never was.",
            "Look at `duraton jobs get ID`.",
        ),
        "jobs-too-many": (
            "As many acts on many runs are under way as may be.",
            "Wait for one of them, or stop one: `duraton jobs list`.",
        ),
        "parked": (
            (
                "A command or message could not be decided about and names no run: its bytes are "
                "kept in the journal as `command.parked`. This is a defect of the engine."
            ),
            "Report it with the error's text; nothing else was touched.",
        ),
        "quarantine": (
            (
                "A decision about the run raised an error, which is a defect of the engine. The "
                "run is paused with the reason `quarantine` and holds no place of others."
            ),
            "Resume the run to try again; report the error's text if it comes back.",
        ),
        "run-not-active": (
            "No run of that id is under way: it has ended, or never was.",
            "Look at `duraton runs get ID`.",
        ),
        "run-not-ended": (
            "Only a run that has ended can be replayed; the message says in which state it is.",
            "Cancel it first, or wait until it ends.",
        ),
        "run-not-paused": ("The run is not paused, so there is nothing to resume.", ""),
        "run-state-too-large": (
            "The run would hold more than 32 MiB of trigger and outputs, so it failed.",
            "Store large data elsewhere and return references; split the work over child runs.",
        ),
        "runner-unreachable": (
            (
                "Three invokes, 1000 ms apart, did not reach a runner, so the run failed. "
                "The steps' own attempts are not used up by that."
            ),
            "Look at the runner: its address, its log, whether it is up.",
        ),
        "shapes-too-many": (
            "More pairs of event name and field path are waited for than the engine keeps.",
            "Use fixed event names and put what varies into the matched field's value.",
        ),
        "steps-too-many": (
            "The run called more steps than one run may have.",
            "Split the work over child runs with `ctx.step.invoke`.",
        ),
    },
}
HEAD = """# Errors

Every error that people meet has a code that stays the same, a message that names the case, and
what to do. Over HTTP it is an RFC 9457 problem document with `code`, `title`, `detail` and
`advice`; on the command line it is one line on stderr and exit status 1 (2 for wrong usage); in the
errors of runs and steps it is `error.code`.

*Again* says whether trying the same once more can help by itself.

This page is written by `make docs` from the errors' own texts.
"""


def page() -> str:
    """The page's text."""
    parts, seen = [HEAD], set()
    for package, title in COMPONENTS.items():
        errors = importlib.import_module(f"{package}.errors")
        sections = [text for code, text in sections_of(errors) if code not in seen]
        seen |= {code for code, _ in sections_of(errors)}
        parts.append(f"## {title}\n\n" + "\n".join(sections))
    return "\n".join(parts)


def sections_of(errors: object) -> list[tuple[str, str]]:
    """Each code of an errors module and its section, by code."""
    found = {}
    for value in vars(errors).values():
        if not isinstance(value, type) or value.__module__ != errors.__name__:
            continue
        if "code" in vars(value):
            again = "yes" if getattr(value, "retriable", False) else "no"
            status = f" HTTP {value.status}." if hasattr(value, "status") else ""
            what = paragraph(inspect.getdoc(value) or "")
            found[value.code] = (
                f"### `{value.code}`\n\n{what}{status}\n\n"
                f"*What to do:* {value.advice}  \n*Again:* {again}\n"
            )
    for code, (what, advice) in OTHER_CODES.get(errors.__name__.split(".")[0], {}).items():
        to_do = f"\n*What to do:* {advice}\n" if advice else ""
        found[code] = f"### `{code}`\n\n{what}\n{to_do}"
    return sorted(found.items())


def paragraph(text: str) -> str:
    """A docstring's first paragraphs, without its Args and Attributes."""
    body = re.split(r"\n\s*(?:Args|Attributes|Raises|Returns):", text)[0]
    return " ".join(body.split())


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
