"""What happened twice, and what is missing: names, kept in sixteen bytes each."""

from array import array
from collections.abc import Iterator
from hashlib import blake2b

_BUCKETS = 256


class Names:
    """A compact bag of names: eight bytes of hash and eight of number each.

    Two different names share a hash once in about 10^19 pairs.
    """

    def __init__(self) -> None:
        self.hashes = [array("Q") for _ in range(_BUCKETS)]
        self._numbers = [array("Q") for _ in range(_BUCKETS)]
        self.count = 0

    def add(self, name: str, number: int) -> None:
        digest = blake2b(name.encode(), digest_size=8).digest()
        bucket = digest[0]
        self.hashes[bucket].append(int.from_bytes(digest, "big"))
        self._numbers[bucket].append(number)
        self.count += 1

    def twice(self) -> Iterator[tuple[int, int]]:
        """The numbers of two neighbours that have one name."""
        for bucket in range(_BUCKETS):
            last: tuple[int, int] | None = None
            for pair in sorted(zip(self.hashes[bucket], self._numbers[bucket], strict=True)):
                if last is not None and last[0] == pair[0]:
                    yield last[1], pair[1]
                last = pair

    def lacking(self, others: "Names") -> Iterator[int]:
        """The numbers of names that the others do not have."""
        for bucket in range(_BUCKETS):
            there = set(others.hashes[bucket])
            for found, number in zip(self.hashes[bucket], self._numbers[bucket], strict=True):
                if found not in there:
                    yield number
