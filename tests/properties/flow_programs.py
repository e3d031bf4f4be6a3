"""Random programs of flow control: workflows with controls, events, acts, redeploys, time.

A program is data, made by one seed: the same seed makes the same program. Spans are
drawn to the millisecond, so that what has different causes seldom falls together; the
model says where it does.

Step code is told by its event: `data["do"]` is a list of operations.

    ["work", ms, failures]       a step that takes time and fails in its first attempts
    ["final", ms]                a step that fails for good
    ["ai", ms, tokens, cents, failures]
                                 a model's call, whose failed attempts are paid for too
    ["sleep", ms]
    ["wait", number, ms]         for the event `signal` with that number, or its time-out
    ["call", "app/workflow", data]
                                 invokes a workflow; runs call only their own and those
                                 of higher numbers, so that none waits for itself
    ["send", name, data]         sends an event
"""

import random
from dataclasses import dataclass, field, replace

APPS = ("left", "right")
EVERY = "every"
"""An event that several workflows take."""
MISSING = object()
VALUES = (1, 1, 2, "1", 1.0, "x", True, "true", MISSING, [1], None)
"""Of a key: equal by P3 are 1, "1" and 1.0, and true and "true"; the last three are missing."""
CONTROLS = (
    *("concurrency", "throttle", "rateLimit", "singleton", "idempotency"),
    *("cap", "budget", "tokenThrottle"),
)
"""Those of which each is drawn by itself."""
ACTS = ("cancel", "cancel", "pause", "resume", "resume")
CALLERS = ("ann", "ann", "bob")


@dataclass(frozen=True)
class Flow:
    """A workflow.

    Attributes:
        place: Its number among all; it makes its spans differ from those of others.
        controls: Its controls in wire form, `key` among them.
        attempts: Executions of a step in all.
        backoff: Milliseconds between them.
        handles: Whether it has an onFailure handler, which takes 50 ms.
        loops: Whether its runs may invoke it itself.
    """

    app: str
    name: str
    place: int
    triggers: tuple = ()
    controls: dict = field(default_factory=dict)
    attempts: int = 1
    backoff: int = 1_000
    handles: bool = False
    loops: bool = False

    def calls(self, target):
        """Whether it invokes a workflow where it is told to."""
        return int(target.rpartition("/w")[2]) > self.place or target == self.loop

    @property
    def loop(self):
        """Itself, where it may: a flow that joins would wait for a circle of runs."""
        return f"{self.app}/{self.name}" if self.loops else None

    @property
    def home(self):
        return (self.app, self.name)

    def span(self, ms):
        """A span of its operations, told apart from those of other workflows."""
        return ms + 17 * self.place


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
        flows: The workflows as they are registered first.
        ceiling: The project's ceiling at the start.
        actions: Each with the milliseconds that pass after it:
            ("post", ((event, data, subject), ...), key), ("act", which, pick),
            ("deploy", app, flows), ("ceiling", n), ("crash", down, runner).
        starts_max: As in the engine's settings.
        capacity: Of the runner.
        tick: Milliseconds between two looks at the budgets.
    """

    seed: int
    profile: str
    flows: tuple
    ceiling: int
    actions: tuple
    starts_max: int = 64
    capacity: int = 1_000
    tick: int = 10_000


PROFILES = {
    # What is likely, of 100: each control, and each kind of action.
    "mixed": {},
    "gates": {
        "together": 80,
        "group": 80,
        "ceiling": 70,
        "apps": 2,
        "throttle": 10,
        "debounce": 5,
        "batch": 5,
    },
    "held": {"debounce": 45, "batch": 50, "singleton": 50, "together": 40, "refuse": 60},
    "stop": {"together": 90, "stop": 60, "group": 40, "ceiling": 50, "debounce": 0, "batch": 0},
    "join": {"together": 90, "join": 60, "call": 30, "debounce": 10, "batch": 10},
    "calm": {"deploy": 0, "ceiling": 25, "crash": 0},
    "deploys": {"deploy": 30, "ceiling": 30},
    "spend": {
        "ai": 60,
        "budget": 70,
        "cap": 40,
        "tokenThrottle": 45,
        "deploy": 15,
        "group": 5,
        "ceiling": 0,
        "act": 25,
        "resume": 5,
    },
    "crowd": {
        "crowd": 100,
        "ceiling": 100,
        "together": 30,
        "group": 50,
        "throttle": 8,
        "concurrency": 12,
        "rateLimit": 4,
        "debounce": 4,
        "batch": 4,
        "singleton": 4,
        "idempotency": 4,
        "budget": 0,
        "tokenThrottle": 0,
        "deploy": 8,
    },
}
USUAL = {
    "concurrency": 35,
    "throttle": 20,
    "rateLimit": 15,
    "debounce": 15,
    "batch": 12,
    "priority": 20,
    "singleton": 20,
    "idempotency": 15,
    "together": 35,
    "group": 35,
    "refuse": 20,
    "stop": 20,
    "join": 15,
    "ceiling": 35,
    "call": 12,
    "act": 12,
    "resume": 0,
    "ai": 8,
    "budget": 10,
    "cap": 8,
    "tokenThrottle": 8,
    "deploy": 12,
    "apps": 0,
    "crowd": 0,
    "crash": 0,
}


class Maker:
    """Makes one program.

    Args:
        seed: What decides everything.
        crashes: Of 100 actions, how many are crashes.
    """

    def __init__(self, seed, *, crashes=0, profile=None):
        self.random = random.Random(seed)
        self.seed = seed
        names = list(PROFILES)
        self.profile = profile or self.random.choice(names)
        self.likely = {**USUAL, **PROFILES[self.profile], "crash": crashes}
        self.numbers = 0
        self.waits = []
        self.groups = {}
        if self.ms(0, 2) == 0 and self.profile != "join":
            self.likely["join"] = 0

    def happens(self, what):
        return self.random.randrange(100) < self.likely[what]

    def pick(self, *choices):
        return self.random.choice(choices)

    def ms(self, low, high):
        return self.random.randint(low, high)

    # Workflows

    def program(self):
        flows = self.flows()
        self.now = flows
        self.gated = any("group" in flow.controls.get("together", {}) for flow in flows)
        self.gated = self.gated or self.likely["ceiling"] > 30
        actions = []
        for _ in range(self.ms(4, 7 if self.happens("crowd") else 22)):
            actions.extend(self.apart(self.action(flows)))
        return Program(
            seed=self.seed,
            profile=self.profile,
            flows=tuple(flows),
            ceiling=self.pick(1, 2, 3) if self.happens("ceiling") else 0,
            actions=tuple(actions),
            starts_max=self.pick(64, 64, 3, 1),
            tick=self.pick(1_000, 1_000, 10_000),
        )

    def flows(self):
        apps = APPS if self.likely["apps"] == 2 or self.ms(0, 3) == 0 else APPS[:1]
        found = []
        for place in range(self.ms(max(len(apps), 1), 4)):
            app = apps[place % len(apps)]
            name = f"w{place}"
            shared = self.ms(0, 2) == 0
            flow = Flow(
                app=app,
                name=name,
                place=place,
                triggers=(name, EVERY) if shared else (name,),
                attempts=self.pick(1, 1, 2, 3),
                backoff=self.ms(100, 3_000),
                handles=self.ms(0, 4) == 0,
                loops=not self.likely["join"],
            )
            found.append(replace(flow, controls=self.controls()))
        return found

    def key(self):
        return self.pick("a", "a", "b", "deep.c", None)

    def controls(self):
        made = {}
        for name in CONTROLS:
            if self.happens(name):
                made[name] = getattr(self, "_" + name)()
        if self.happens("debounce"):
            made["debounce"] = self.keyed({"periodMs": self.ms(500, 4_000)})
        elif self.happens("batch"):
            size = self.ms(1, 4)
            made["batch"] = self.keyed({"maxSize": size, "timeoutMs": self.ms(500, 5_000)})
        if self.happens("priority"):
            made["priority"] = {"shiftMs": self.pick(-3_001, 2_003, 10_007)}
        if self.happens("together"):
            made["together"] = self._together()
        key = self.key()
        if key is not None:
            made["key"] = key
        return made

    def keyed(self, control):
        key = self.key()
        return control if key is None else {**control, "key": key}

    def _concurrency(self):
        return self.keyed({"limit": self.ms(1, 3)})

    def _throttle(self):
        # Some intervals are not whole.
        return self.keyed({"limit": self.ms(1, 3), "perMs": self.ms(1_000, 6_000)})

    def _rateLimit(self):
        return self.keyed({"limit": self.ms(1, 4), "perMs": self.ms(2_000, 9_000)})

    def _singleton(self):
        return self.keyed({"mode": self.pick("skip", "skip", "cancel")})

    def _idempotency(self):
        return {"key": self.pick("a", "b"), "periodMs": self.ms(1_000, 9_000)}

    def _cap(self):
        return self.pick(
            {"maxTokens": self.ms(50, 400)},
            {"maxCost": self.ms(10, 90) / 100},
            {"maxTokens": self.ms(50, 400), "maxCost": self.ms(10, 90) / 100},
        )

    def _budget(self):
        made = {**self._cap(), "windowMs": 1_000 * self.ms(4, 30)}
        percent = self.pick(None, 50, 80, 100)
        return made if percent is None else {**made, "warnAtPct": percent}

    def _tokenThrottle(self):
        tokens = self.pick(50, 100, 300)
        # A token takes whole milliseconds, as long as the rate stays.
        return self.keyed({"tokens": tokens, "perMs": tokens * self.ms(3, 40)})

    def _together(self):
        made = {"max": self.ms(1, 3)}
        for then in ("refuse", "stop", "join"):
            if self.happens(then):
                made["then"] = then
        if self.happens("group"):
            group = self.pick("g", "g", "h")
            made["group"] = group
            # One registration states one `max` for a group (P24).
            made["max"] = self.groups.setdefault(group, made["max"])
        return made

    # Events

    def number(self):
        self.numbers += 1
        return self.numbers

    def data(self, app, depth=1):
        made = {"n": self.number(), "do": self.script(app, depth)}
        for key in ("a", "b"):
            value = self.random.choice(VALUES)
            if value is not MISSING:
                made[key] = value
        if self.ms(0, 1):
            made["deep"] = {"c": self.pick(1, 2, "2", None)}
        return made

    def script(self, app, depth):
        if self.happens("crowd"):
            return [["work", self.ms(1, 60), 0]]
        ops = []
        for _ in range(self.pick(1, 1, 1, 2, 3)):
            ops.append(self.work())
            ops.extend(self.rest(app, depth))
        if ops[-1][0] not in ("work", "ai") or self.ms(0, 3) == 0:
            ops.append(self.work())
        return ops

    def work(self):
        if self.happens("ai"):
            failures = self.pick(0, 0, 0, 1)
            return ["ai", self.ms(1, 2_000), self.ms(0, 200), self.ms(0, 40), failures]
        if self.ms(0, 24) == 0:
            return ["final", self.ms(1, 2_000)]
        return ["work", self.ms(1, self.pick(300, 3_000, 6_000)), self.pick(0, 0, 0, 0, 0, 1, 1, 2)]

    def rest(self, app, depth):
        kind = self.ms(0, 99)
        if depth and kind < self.likely["call"]:
            if self.now:
                child = self.random.choice(self.now)
                target = f"{child.app}/{child.name}"
                return [["call", target, self.data(child.app, depth - 1)]]
        if depth and 30 <= kind < 36 and self.now:
            sent = self.random.choice(self.now)
            return [["send", sent.name, self.data(sent.app, depth - 1)]]
        if 40 <= kind < 65:
            return [["sleep", self.ms(1, 5_000)]]
        if 65 <= kind < 73:
            number = self.number()
            self.waits.append(number)
            return [["wait", number, self.ms(500, 6_000)]]
        return []

    now = ()

    # Actions

    def action(self, flows):
        gap = self.ms(0, self.pick(20, 400, 3_000, 3_000))
        return (gap, self.what(flows))

    def apart(self, given):
        """Across workflows, who is sent in one POST has no order: mostly each has its own."""
        gap, action = given
        if action[0] != "post" or not self.gated or len(action[1]) > 20 or self.ms(0, 9) == 0:
            return [given]
        posts = [(self.ms(1, 9), ("post", (event,), action[2])) for event in action[1]]
        return [*posts[:-1], (gap, posts[-1][1])]

    def what(self, flows):
        if self.happens("crash"):
            return ("crash", self.pick(0, 0, 0, self.ms(1, 4_000)), self.ms(0, 3) == 0)
        if self.happens("deploy"):
            return self.deploy()
        kind = self.ms(0, 99)
        if kind < 5 and self.likely["ceiling"]:
            return ("ceiling", self.pick(0, 1, 2, 3))
        if kind < 5 + self.likely["act"]:
            act = self.pick(*ACTS, *["resume"] * self.likely["resume"])
            return ("act", act, self.ms(0, 40))
        if kind < 11 + self.likely["act"] and self.waits:
            number = self.random.choice(self.waits[-4:])
            return ("post", (("signal", {"n": number}, None),), self.random.choice(CALLERS))
        return self.post()

    def post(self):
        most = self.pick(1, 1, 1, 2, 3, 6)
        if self.happens("crowd"):
            most = self.pick(1, 2, 21, 90)
        shared = [flow for flow in self.now if EVERY in flow.triggers]
        events = []
        only = self.random.choice(self.now)
        for _ in range(most):
            flow = only if most > 6 else self.random.choice(self.now)
            name = flow.name
            if shared and most <= 6 and self.ms(0, 14 if self.gated else 4) == 0:
                name, flow = EVERY, shared[0]
            subject = self.pick(None, None, "row1", "row2")
            data = self.data(flow.app)
            if most > 6:
                subject, data = None, {"n": data["n"], "do": data["do"]}
            events.append((name, data, subject))
        return ("post", tuple(events), self.random.choice(CALLERS))

    def deploy(self):
        """Another version of one app: controls come, go and change; the workflows stay."""
        app = self.random.choice(sorted({flow.app for flow in self.now}))
        changed = []
        if self.ms(0, 2) == 0:
            self.groups.clear()
        for flow in self.now:
            if flow.app != app:
                continue
            new = flow
            if self.ms(0, 2):
                new = replace(flow, controls=self.changed(flow.controls))
            changed.append(new)
        changed = self.agreed(changed)
        self.now = [next((n for n in changed if n.home == old.home), old) for old in self.now]
        return ("deploy", app, tuple(changed))

    def changed(self, controls):
        """Controls of which one or more differ."""
        fresh = self.controls()
        mixed = dict(controls)
        for name in {**controls, **fresh}:
            if self.ms(0, 2):
                continue
            if name in fresh:
                mixed[name] = fresh[name]
            else:
                del mixed[name]
        if "debounce" in mixed and "batch" in mixed:
            del mixed[self.pick("debounce", "batch")]
        for name in ("rateLimit", "throttle"):
            old = controls.get(name)
            if old is not None and name in mixed:
                # What a longer period would have to know of the past may be forgotten.
                mixed[name] = {**mixed[name], "perMs": min(mixed[name]["perMs"], old["perMs"])}
        return mixed

    def agreed(self, flows):
        """One registration states one `max` for a group (P24)."""
        stated = {}
        found = []
        for flow in flows:
            together = flow.controls.get("together")
            if together and "group" in together:
                most = stated.setdefault(together["group"], together["max"])
                controls = {**flow.controls, "together": {**together, "max": most}}
                flow = replace(flow, controls=controls)  # noqa: PLW2901 - it is the same one
            found.append(flow)
        return found


def make(seed, *, crashes=0, profile=None):
    """The program of a seed."""
    return Maker(seed, crashes=crashes, profile=profile).program()
