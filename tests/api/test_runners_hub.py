"""The hub by real frames over connections held in the test; time is the test's own."""

import asyncio
import json

import pytest

from duraton_api.errors import AnswerUnknownError, EngineStoppedError, PendingError
from duraton_api.runners.connection import REASON_BYTES_MAX, Connection, close_reason
from duraton_api.runners.hub import Hub
from duraton_api.runners.settings import HubSettings
from duraton_engine.calls import Answered, InvokeMissed, RoomFreed, RunnerLost, RunnerSettled
from duraton_engine.effects import Reply, ToRunner
from duraton_engine.room import Room
from duraton_schemas.errors import OptionsError
from duraton_schemas.ids import run_id
from duraton_schemas.options import read_app
from duraton_schemas.wire import frames as wire
from duraton_streams.errors import OverloadedError

APP = '{"name":"shop","workflows":[{"name":"order"}]}'
RUN = run_id(0, "event:a", "shop", "order")
FAR_RUN = run_id(1023, "event:b", "shop", "order")


class Time:
    """Time that the test moves."""

    def __init__(self):
        self.now = 1_000_000
        self.timers = []

    def now_ms(self):
        return self.now

    def call_later_ms(self, delay_ms, action):
        timer = (self.now + delay_ms, len(self.timers), action)
        self.timers.append(timer)
        return lambda: self.timers.remove(timer) if timer in self.timers else None

    def pass_ms(self, span):
        end = self.now + span
        while self.timers and min(self.timers)[0] <= end:
            timer = min(self.timers)
            self.timers.remove(timer)
            self.now = timer[0]
            timer[2]()
        self.now = end


class Wire(Connection):
    """A connection whose messages stay with the test."""

    def __init__(self, hub):
        self.hub = hub
        self.messages = []
        self.closed = None
        self.waiting = 0
        self.paused = False
        hub.connected(self)

    def send(self, message):
        self.messages.append(wire.decode_from_engine(message))

    def close(self, code, reason):
        assert len(reason.encode()) <= REASON_BYTES_MAX
        self.closed = (code, json.loads(reason)["code"])

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False

    @property
    def unsent(self):
        return self.waiting

    def say(self, *frames):
        self.hub.received(self, wire.encode(list(frames)))

    @property
    def frames(self):
        return [frame for message in self.messages for frame in message]


class World:
    """A hub, what it offered, and the engine's side of a registration."""

    def __init__(self, partitions=4, **settings):
        self.time = Time()
        self.offers = []
        self.registered = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.refuse = None
        self.room = Room(lambda: self.offers.append((None, RoomFreed())))
        self.hub = Hub(
            node="n1",
            partitions=partitions,
            offer=lambda partition, call: self.offers.append((partition, call)),
            room=self.room,
            register=self.register,
            clock=self.time,
            settings=HubSettings(**settings),
        )

    async def register(self, text):
        await self.gate.wait()
        if isinstance(self.refuse, Exception):
            raise self.refuse
        if self.refuse:
            return Reply(id="1", ok=False, code="options-refused", message=self.refuse)
        self.registered.append(read_app(text).name)
        return Reply(id="1", ok=True, version=7)

    def calls(self, kind):
        return [(partition, call) for partition, call in self.offers if isinstance(call, kind)]

    async def runner(self, *more, **fields):
        connection = Wire(self.hub)
        connection.say(hello(**fields), *more)
        await settle()
        return connection


def hello(**fields):
    stated = {"apps": [APP], "capacity": 2, "name": "w1", "boot": "boot-a", **fields}
    return wire.Hello(**stated)


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def world():
    return World()


async def test_a_hello_registers_then_answers_settles_and_takes_a_seat_in_that_order(world):
    world.gate.clear()
    runner = Wire(world.hub)
    runner.say(hello(tokens=[wire.LiveToken(run=RUN, token="0.1.1")]))
    await settle()
    assert runner.frames == [] and world.offers == [] and world.room.find("shop", "order") is None

    world.gate.set()
    await settle()

    assert world.registered == ["shop"]
    [answer] = runner.frames
    assert (answer.node, answer.tokens[0].token) == ("n1", "0.1.1")
    assert (answer.ping_ms, answer.silence_ms) == (5_000, 15_000)
    assert [type(call) for _, call in world.offers] == [RunnerSettled, RoomFreed]
    assert world.offers[0] == (
        None,
        RunnerSettled(boot="boot-a", live=frozenset({(RUN, "0.1.1")}), name=None),
    )
    assert world.room.find("shop", "order").boot == "boot-a"


async def test_answers_go_to_the_partition_of_their_run(world):
    runner = await world.runner()
    step = wire.Step(run=FAR_RUN, token="3.1.1", step="a", output="1")
    runner.say(wire.Ping(), step, wire.Complete(run=RUN, token="0.1.9"))
    assert world.calls(Answered) == [
        (3, Answered("boot-a", step)),
        (0, Answered("boot-a", wire.Complete(run=RUN, token="0.1.9"))),
    ]


async def test_what_is_said_before_hello_is_answered_is_taken_after_it(world):
    world.gate.clear()
    step = wire.Step(run=RUN, token="0.1.1", step="a", output="1")
    runner = Wire(world.hub)
    runner.say(hello(), step)
    runner.say(wire.Complete(run=RUN, token="0.1.1"))
    await settle()
    assert world.offers == []
    world.gate.set()
    await settle()
    kinds = [type(call) for _, call in world.offers]
    assert kinds == [RunnerSettled, RoomFreed, Answered, Answered]


async def test_a_batch_is_one_message_a_runner_in_order(world):
    first = await world.runner()
    second = await world.runner(boot="boot-b", name="w2")
    first.messages.clear(), second.messages.clear()
    acks = [wire.Ack(run=RUN, token="0.1.1", step=name) for name in "abc"]
    world.hub.deliver(
        [
            ToRunner("boot-a", acks[0]),
            ToRunner("boot-b", acks[1]),
            ToRunner("boot-a", acks[2]),
            ToRunner("nobody", acks[2]),
        ]
    )
    assert first.messages == [[acks[0], acks[2]]]
    assert second.messages == [[acks[1]]]


async def test_what_one_message_cannot_hold_is_split_in_order(world):
    runner = await world.runner()
    runner.messages.clear()
    acks = [wire.Ack(run=RUN, token="0.1.1", step="s", n=n) for n in range(wire.FRAMES_MAX + 1)]
    world.hub.deliver([ToRunner("boot-a", ack) for ack in acks])
    assert len(runner.messages) == 2 and runner.frames == acks


async def test_a_lost_socket_is_waited_for_and_then_its_runner_is_lost(world):
    runner = await world.runner()
    world.hub.closed(runner)
    assert world.room.find("shop", "order") is None and not world.room.offered("shop", "order")
    world.time.pass_ms(14_999)
    assert world.calls(RunnerLost) == []
    world.time.pass_ms(1)
    [(partition, lost)] = world.calls(RunnerLost)
    assert (partition, lost.boot, lost.counts) == (None, "boot-a", True)
    assert world.room.seats == {} and world.hub.runners == ()


async def test_the_same_boot_comes_back_to_its_seat(world):
    runner = await world.runner()
    world.room.take("boot-a", "0.1.1")
    world.room.take("boot-a", "0.1.2")
    world.hub.closed(runner)
    world.time.pass_ms(10_000)
    again = await world.runner(tokens=[wire.LiveToken(run=RUN, token="0.1.1")])
    world.time.pass_ms(14_000)
    assert world.calls(RunnerLost) == []
    assert world.calls(RunnerSettled)[-1][1].live == {(RUN, "0.1.1")}
    assert world.room.seats["boot-a"].tokens == {"0.1.1", "0.1.2"}
    assert world.room.seats["boot-a"].since_hello == set()

    # An invocation committed before the hello is not sent after it: it was not listed.
    again.messages.clear()
    late = [
        wire.Invoke(run=RUN, token=f"0.1.{n}", epoch=1, app="shop", workflow="order")
        for n in (2, 3)
    ]
    world.hub.deliver([ToRunner("boot-a", frame) for frame in late])
    assert again.frames == [late[1]]


async def test_a_newer_connection_of_one_process_replaces_the_older(world):
    first = await world.runner()
    second = await world.runner()
    assert first.closed == (4410, "runner-replaced") and second.closed is None
    world.hub.closed(first)
    world.time.pass_ms(4_000)
    assert world.calls(RunnerLost) == []
    world.hub.deliver([ToRunner("boot-a", wire.Cancel(run=RUN, token="0.1.1"))])
    assert second.frames[-1] == wire.Cancel(run=RUN, token="0.1.1")


async def test_a_second_live_process_of_an_explicit_name_is_refused(world):
    first = await world.runner(explicit=True)
    second = await world.runner(explicit=True, boot="boot-b")
    assert second.closed == (4409, "runner-name-taken")
    assert first.closed is None and [r.boot for r in world.hub.runners] == ["boot-a"]
    assert len(world.calls(RunnerSettled)) == 1
    # Names that nobody chose may repeat.
    third = await world.runner(boot="boot-c")
    assert third.closed is None


async def test_a_new_process_of_a_name_ends_the_old_one_at_once(world):
    first = await world.runner(explicit=True)
    world.hub.closed(first)
    await world.runner(explicit=True, boot="boot-b")
    [(_, lost)] = world.calls(RunnerLost)
    assert lost.boot == "boot-a"
    assert world.calls(RunnerSettled)[-1][1].name == "w1"
    assert list(world.room.seats) == ["boot-b"]
    world.time.pass_ms(4_000)
    assert len(world.calls(RunnerLost)) == 1


async def test_a_name_is_free_once_its_connection_has_missed_two_pings(world):
    first = await world.runner(explicit=True)
    world.time.pass_ms(10_001)
    second = await world.runner(explicit=True, boot="boot-b")
    assert first.closed == (4410, "runner-replaced") and second.closed is None
    assert [call.boot for _, call in world.calls(RunnerLost)] == ["boot-a"]


async def test_a_silent_socket_is_closed_and_waited_for_once_more(world):
    runner = await world.runner()
    world.time.pass_ms(10_000)
    assert [type(f) for f in runner.frames] == [wire.Hello, wire.Ping, wire.Ping]
    world.time.pass_ms(5_000)
    assert runner.closed == (4408, "runner-silent") and world.calls(RunnerLost) == []
    world.time.pass_ms(15_000)
    assert [call.boot for _, call in world.calls(RunnerLost)] == ["boot-a"]
    assert world.time.timers == []


async def test_pings_keep_a_quiet_runner(world):
    runner = await world.runner()
    for _ in range(20):
        world.time.pass_ms(5_000)
        runner.say(wire.Ping())
    assert runner.closed is None


async def test_a_connection_that_never_says_hello_is_closed(world):
    connection = Wire(world.hub)
    world.time.pass_ms(15_000)
    assert connection.closed == (4408, "runner-silent") and world.offers == []


async def test_without_pings_time_may_pass_in_silence():
    world = World(ping_ms=0)
    runner = await world.runner()
    world.time.pass_ms(10**9)
    assert runner.closed is None and world.time.timers == []


async def test_a_draining_runner_takes_nothing_new_and_leaves_at_no_cost(world):
    runner = await world.runner()
    runner.say(wire.Drain())
    assert world.room.find("shop", "order") is None
    # What it still has is answered as before.
    runner.say(wire.Complete(run=RUN, token="0.1.1"))
    assert len(world.calls(Answered)) == 1
    world.hub.closed(runner, 1000)
    [(_, lost)] = world.calls(RunnerLost)
    assert lost.boot == "boot-a" and not lost.counts


async def test_a_draining_runner_that_is_cut_off_is_waited_for(world):
    runner = await world.runner()
    runner.say(wire.Drain())
    world.hub.closed(runner)
    assert world.calls(RunnerLost) == []
    await world.runner()
    assert world.room.find("shop", "order") is None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", 4400),
        (b"\xff\x00nonsense", 4400),
        (b"\x91\x82\xa4type\xa5hello\xa4name\xa2\xff\xfe", 4400),
        (b"\x91\x82\xa4type\xa5hello\xa4xxxx" + b"\x91" * 10_000 + b"\xc0", 4400),
        (wire.encode([]), 4400),
        (wire.encode([wire.Ping()]), 4400),
        (wire.encode([wire.Complete(run=RUN, token="0.1.1")]), 4400),
        (wire.encode([hello(version=2)]), 4426),
        (wire.encode([hello(boot="")]), 4422),
        (wire.encode([hello(boot="serve:shop")]), 4422),
        (wire.encode([hello(name="")]), 4422),
        (wire.encode([hello(name="a\nERROR b")]), 4422),
        (wire.encode([hello(capacity=0)]), 4422),
        (wire.encode([hello(apps=[])]), 4422),
        (wire.encode([hello(apps=["nonsense"])]), 4422),
        (wire.encode([hello(apps=[APP + " " * (4 << 20)])]), 4422),
        (wire.encode([hello(apps=['{"name":"shop","workflows":' + "[" * 100_000])]), 4422),
        (wire.encode([hello(apps=[APP, APP])]), 4422),
        (wire.encode([hello(apps=['{"name":"shop","workflows":[{"name":""}]}'])]), 4422),
    ],
)
async def test_a_first_message_that_makes_no_sense_closes_the_connection(world, message, code):
    connection = Wire(world.hub)
    world.hub.received(connection, message)
    await settle()
    assert connection.closed[0] == code
    assert world.offers == [] and world.room.seats == {} and world.registered == []
    world.hub.received(connection, message)
    world.hub.closed(connection)


async def test_nonsense_on_an_open_connection_closes_it_and_loses_nothing(world):
    runner = await world.runner()
    world.hub.received(runner, b"\x93\x01\x02\x03")
    assert runner.closed == (4400, "runner-unreadable")
    again = await world.runner()
    assert again.closed is None and world.calls(RunnerLost) == []


async def test_hello_is_said_once(world):
    runner = await world.runner()
    runner.say(hello())
    assert runner.closed == (4400, "runner-unreadable")


async def test_a_refused_registration_refuses_the_runner(world):
    world.refuse = "order.retry: maxAttempts must be a whole number of at least 1"
    runner = await world.runner()
    assert runner.closed == (4422, "options-refused")
    assert runner.frames == [wire.Refused(code="options-refused", message=world.refuse)]
    assert world.offers == [] and world.room.seats == {}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OverloadedError("full"), "overloaded"),
        (PendingError("its answer has not come yet"), "registration-late"),
        (AnswerUnknownError("the commit is in doubt"), "answer-unknown"),
        (EngineStoppedError("it stopped"), "engine-stopped"),
    ],
)
async def test_a_registration_that_cannot_be_made_now_says_come_back(world, caplog, error, code):
    world.refuse = error
    runner = await world.runner()
    assert runner.closed == (1013, code)
    assert "could not be answered" not in caplog.text, "it is no defect"


async def test_a_defect_costs_one_connection(world, caplog):
    world.refuse = OptionsError("unexpected")
    runner = await world.runner()
    assert runner.closed == (1011, "engine-defect")
    world.refuse = None
    assert (await world.runner()).closed is None


async def test_answers_of_no_run_and_of_other_partitions_are_stale(world):
    runner = await world.runner()
    runner.messages.clear()
    runner.say(
        wire.Step(run="nonsense", token="0.1.1", step="a", output="1"),
        wire.Complete(run=RUN, token="3.1.1"),
        wire.Fail(run=RUN, token="", error=wire.FrameError(message="x")),
        wire.Suspend(run="x" * 10_000, token="0.1.1"),
    )
    assert [(type(f), f.of, f.step) for f in runner.frames] == [
        (wire.Stale, "step", "a"),
        (wire.Stale, "complete", ""),
        (wire.Stale, "fail", ""),
        (wire.Stale, "suspend", ""),
    ]
    assert world.calls(Answered) == [] and runner.closed is None


@pytest.mark.parametrize(
    "answer",
    [
        wire.Step(run=RUN, token="0.1.1", step="a", kind="dance", output="1"),
        wire.Step(run=RUN, token="0.1.1", step="", output="1"),
        wire.Step(run=RUN, token="0.1.1", step="a"),
        wire.Step(run=RUN, token="0.1.1", step="a", output="1", n=-1),
        wire.Step(run=RUN, token="0.1.1", step="a", output="1", attempt=0),
        wire.Step(run=RUN, token="0.1.1", step="a", output="1", seen=2**63),
        wire.Step(run=RUN, token="0.1.1", step="a", kind="sleep"),
        wire.Step(run=RUN, token="0.1.1", step="a", kind="sleep", due_ms=-5),
        wire.Step(run=RUN, token="0.1.1", step="a", kind="wait"),
        wire.Step(run=RUN, token="0.1.1", step="a", kind="invoke", event="x"),
        wire.Step(run=RUN, token="0.1.1", step="a", kind="send", event="order.*", data="{}"),
        wire.Step(run=RUN, token="0.1.1", step="a", kind="wait", event="x", path="p" * 501),
        wire.Step(run=RUN, token="0.1.1", step="a", kind="wait", event="x", value="v" * 4_001),
        wire.Step(run=RUN, token="0.1.1", step="a", output="1", retry="{nonsense"),
        wire.Step(run=RUN, token="0.1.1", step="a", output="1", retry='{"maxAttempts":0}'),
        wire.Step(run=RUN, token="0.1.1", step="a", output="1", retry=" " * 3_000 + "{}"),
        wire.Step(
            run=RUN, token="0.1.1", step="a", error=wire.FrameError(message="", name="n" * 501)
        ),
        wire.Step(
            run=RUN,
            token="0.1.1",
            step="a",
            kind="ai",
            output="1",
            usage=[wire.FrameUsage(tokens=-1)],
        ),
        wire.Step(
            run=RUN,
            token="0.1.1",
            step="a",
            kind="ai",
            output="1",
            usage=[wire.FrameUsage(cost=2**53)],
        ),
        wire.Step(
            run=RUN,
            token="0.1.1",
            step="a",
            kind="ai",
            output="1",
            usage=[wire.FrameUsage(model="m" * 501)],
        ),
        wire.Step(
            run=RUN, token="0.1.1", step="a", kind="ai", output="1", usage=[wire.FrameUsage()] * 21
        ),
        wire.Fail(run=RUN, token="0.1.1", error=wire.FrameError(message="", retry_at=2**63)),
        wire.Fail(run=RUN, token="0.1.1", error=wire.FrameError(message="", retry_after_ms=-1)),
        wire.Complete(run=RUN, token="0.1.1", seen=-1),
    ],
)
async def test_an_answer_that_makes_no_sense_costs_its_run_an_invoke(world, answer):
    runner = await world.runner()
    runner.say(answer)
    [(partition, missed)] = world.calls(InvokeMissed)
    assert (partition, missed.run, missed.token, missed.counts) == (0, RUN, "0.1.1", True)
    assert "no sense" in missed.reason and world.calls(Answered) == []


async def test_values_that_cannot_be_stored_become_errors(world):
    runner = await world.runner()
    runner.say(
        wire.Step(run=RUN, token="0.1.1", step="a", output="{nonsense"),
        wire.Step(run=RUN, token="0.1.1", step="b", output='"' + "x" * (4 << 20) + '"'),
        wire.Complete(run=RUN, token="0.1.1", output="NaN", seen=2),
        wire.Fail(run=RUN, token="0.1.1", error=wire.FrameError(message="x" * 10**6)),
    )
    a, b, complete, fail = (call.frame for _, call in world.calls(Answered))
    assert (a.output, a.error.code, a.error.final) == (None, "value-not-json", True)
    assert (b.output, b.error.code) == (None, "value-too-large")
    assert isinstance(complete, wire.Fail)
    assert (complete.error.code, complete.seen) == ("value-not-json", 2)
    assert len(fail.error.message) < 300_000


async def test_a_slow_runner_gets_no_new_runs_and_is_closed_in_the_end():
    world = World(unsent_bytes_slow=100, unsent_bytes_max=1_000)
    runner = await world.runner()
    frame = ToRunner("boot-a", wire.Cancel(run=RUN, token="0.1.1"))
    runner.waiting = 101
    world.hub.deliver([frame])
    assert world.room.find("shop", "order") is None and runner.closed is None
    runner.waiting = 60
    world.hub.taken(runner)
    assert world.room.find("shop", "order") is None
    runner.waiting = 50
    world.hub.taken(runner)
    assert world.room.find("shop", "order").capacity == 2
    runner.waiting = 1_001
    world.hub.deliver([frame])
    assert runner.closed == (4429, "runner-slow")


async def test_of_many_slow_runners_the_slowest_is_closed():
    world = World(unsent_bytes_slow=100, unsent_bytes_max=1_000, unsent_total_max=1_500)
    boots = ("boot-a", "boot-b", "boot-c")
    runners = [await world.runner(boot=boot, name=boot) for boot in boots]
    for boot, runner, waiting in zip(boots, runners, (600, 800, 99), strict=True):
        runner.waiting = waiting
        world.hub.deliver([ToRunner(boot, wire.Cancel(run=RUN, token="0.1.1"))])
    assert [runner.closed for runner in runners] == [None] * 3
    runners[2].waiting = 101
    world.hub.taken(runners[2])
    world.hub.deliver([ToRunner("boot-a", wire.Cancel(run=RUN, token="0.1.1"))])
    assert [runner.closed for runner in runners] == [None, (4429, "runner-slow"), None]


async def test_a_runner_whose_answers_wait_is_not_read():
    world = World(unanswered_max=3)
    runner = await world.runner()
    steps = [wire.Step(run=RUN, token="0.1.1", step=f"s{n}", output="1") for n in range(4)]
    runner.say(*steps)
    assert runner.paused and len(world.calls(Answered)) == 4
    world.time.pass_ms(60_000)
    assert runner.closed is None, "its pings cannot be heard while it is not read"
    acks = [ToRunner("boot-a", wire.Ack(run=RUN, token="0.1.1", step=f"s{n}")) for n in range(4)]
    world.hub.deliver(acks[:2])
    assert runner.paused
    world.hub.deliver(acks[2:])
    assert not runner.paused
    world.time.pass_ms(10_000)
    assert runner.closed is None


async def test_no_more_runners_than_are_allowed():
    world = World(runners_max=1)
    await world.runner()
    second = await world.runner(boot="boot-b")
    assert second.closed == (1013, "runners-full")


async def test_a_connection_that_closes_while_it_is_greeted_leaves_nothing(world):
    world.gate.clear()
    runner = Wire(world.hub)
    runner.say(hello())
    await settle()
    world.hub.closed(runner)
    world.gate.set()
    await settle()
    assert world.offers == [] and world.room.seats == {}


async def test_stop_closes_every_connection_and_reports_nobody_lost(world):
    runner = await world.runner()
    gone = await world.runner(boot="boot-b")
    world.hub.closed(gone)
    world.gate.clear()
    greeted = Wire(world.hub)
    greeted.say(hello(boot="boot-c"))
    await world.hub.stop()
    late = Wire(world.hub)
    assert [c.closed for c in (runner, greeted, late)] == [(1012, "engine-stopping")] * 3
    world.time.pass_ms(10**6)
    assert world.calls(RunnerLost) == [] and world.time.timers == []


def test_a_reason_fits_a_close_frame():
    for message in ("short", "x" * 500, "ü" * 500, '"\\' * 100):
        reason = close_reason("options-refused", message)
        assert len(reason.encode()) <= REASON_BYTES_MAX
        assert json.loads(reason)["code"] == "options-refused"


async def test_what_is_never_acknowledged_does_not_hold_a_runner_back_for_ever():
    world = World(unanswered_max=3)
    runner = await world.runner()
    error = wire.FrameError(message="x", final=True)
    for number in range(20):
        token = f"0.1.{number}"
        # What ends an invocation is answered by a cancel.
        runner.say(
            wire.Step(run=RUN, token=token, step="a", error=error),
            wire.Step(run=RUN, token=token, step="b", error=error),
        )
        world.hub.deliver([ToRunner("boot-a", wire.Cancel(run=RUN, token=token))])
        # Nonsense and answers of no run reach no partition.
        runner.say(
            wire.Step(run=RUN, token=token, step="", output="1"),
            wire.Complete(run="nonsense", token=token),
            wire.Complete(run=RUN, token="0." + "1" * 1_000),
        )
        assert not runner.paused
    assert len(world.calls(Answered)) == 40


@pytest.mark.parametrize(
    ("output", "stored"),
    [
        ("1e999", False),
        ("9" * 5_000, False),
        ("[" * 100_000, False),
        ("[" * 202 + "]" * 202, False),
        ("[" * 201 + "]" * 201, True),
        ('"\\ud800"', False),
    ],
    ids=["infinite", "digits", "deep", "a-little-deep", "not-too-deep", "half-a-pair"],
)
async def test_a_value_that_could_not_be_read_again_is_not_stored(world, output, stored):
    runner = await world.runner()
    runner.say(wire.Step(run=RUN, token="0.1.1", step="a", output=output))
    [(_, call)] = world.calls(Answered)
    assert (call.frame.error is None) == stored and runner.closed is None
    assert stored or call.frame.error.code == "value-not-json"
