"""The reference that engine clocks follow."""

from duraton_api.node.reference import STALE_AFTER_S, ReferenceTime
from duraton_streams.errors import LogUnreachableError


class Broker:
    """A log whose broker says a time, or is away."""

    embedded = False

    def __init__(self):
        self.at = 1_000_000

    def now_ms(self):
        if self.at is None:
            raise LogUnreachableError("no broker answers")
        return self.at


def test_the_brokers_time_goes_on_by_elapsed_time_and_survives_its_absence():
    seconds = [50.0]
    broker = Broker()
    reference = ReferenceTime(broker, lambda: seconds[0])
    reference.ask()
    assert reference.now_ms() == 1_000_000
    seconds[0] += 2.5
    assert reference.now_ms() == 1_002_500
    broker.at = None
    reference.ask()
    assert reference.now_ms() == 1_002_500
    seconds[0] += STALE_AFTER_S
    assert reference.now_ms() is None


def test_a_clock_begins_at_the_wall_clock_where_the_broker_never_answered():
    broker = Broker()
    broker.at = None
    reference = ReferenceTime(broker)
    reference.ask()
    assert reference.now_ms() > 1_700_000_000_000
