"""Who took a partition after its owner, as the partition's own journal tells."""

import threading

from duraton_schemas.codec import Codec
from duraton_schemas.errors import UnknownSchemaError
from duraton_schemas.records.journal import OwnerTook
from duraton_streams.logs.base import JOURNAL, Log

_READ = 1_000


class Succession:
    """Looks for a later owner without writing anything.

    A fenced owner hears of it at its next commit; one that has nothing to commit asks here.
    While nobody else has written, a look asks for the journal's end and reads nothing.

    Args:
        log: The cluster's log.
        partition: The partition.
        codec: Decodes facts.
    """

    def __init__(self, log: Log, partition: int, codec: Codec) -> None:
        self._log = log
        self._partition = partition
        self._codec = codec
        self._lock = threading.Lock()
        self._next = 0  # nothing below it is of a later owner
        self._quiet = -1  # the journal's end when a look found nothing

    def after(self, epoch: int, journal: int) -> OwnerTook | None:
        """The first owner with an epoch above this one. It blocks.

        Args:
            epoch: That of the owner who asks.
            journal: An offset below which the journal is known to that owner.

        Raises:
            OffsetGoneError: The records in question are gone.
            LogUnreachableError: The broker does not answer.
        """
        with self._lock:
            end = self._log.bounds(JOURNAL, self._partition)[1]
            if end == self._quiet:
                return None
            self._next = max(self._next, journal)
            # What an open transaction holds back is seen once its marker moves the end.
            while records := self._log.read(JOURNAL, self._partition, self._next, _READ):
                for record in records:
                    took = self._took(record.value or b"")
                    if took is not None and took.header is not None and took.header.epoch > epoch:
                        return took
                    self._next = record.offset + 1
            self._quiet = end
            return None

    def _took(self, value: bytes) -> OwnerTook | None:
        try:
            fact = self._codec.decode(value)
        except UnknownSchemaError:
            return None  # of a newer program; its owner.took is one that we know
        return fact if isinstance(fact, OwnerTook) else None
