"""What the broker says about the records of one call."""

import threading

from confluent_kafka import KafkaError, Message


class Deliveries:
    """Where each record of a call stands, by its index, and the first error.

    Attributes:
        offsets: Offsets, -1 where none is known.
        error: The first error, if any.
        stamp_ms: The last record's time as the broker has it.
    """

    def __init__(self, count: int) -> None:
        self.offsets = [-1] * count
        self.error: KafkaError | None = None
        self.stamp_ms = 0

    def delivered(self, index: int, error: KafkaError | None, message: Message) -> None:
        """The client's callback for one record."""
        if error is not None:
            self.fail(error)
            return
        offset = message.offset()
        if offset is not None:
            self.offsets[index] = offset

    def fail(self, error: KafkaError) -> None:
        """Note an error; the first is kept."""
        if self.error is None:
            self.error = error


class AwaitedDeliveries(Deliveries):
    """Deliveries that another thread hears of, while the caller waits for `done`."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.done = threading.Event()
        self._left = count
        self._lock = threading.Lock()

    def delivered(self, index: int, error: KafkaError | None, message: Message) -> None:
        super().delivered(index, error, message)
        if error is None:
            self.stamp_ms = message.timestamp()[1]
        self.count(1)

    def count(self, records: int) -> None:
        """So many records more are settled."""
        with self._lock:  # the caller and the thread that hears both count
            self._left -= records
            if self._left == 0:
                self.done.set()
