"""Ids that carry their slot: runs and invocation tokens (DESIGN 4 and 8)."""

from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from duraton_schemas.errors import BadRecordError
from duraton_schemas.slots import SLOTS

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUE = {letter: number for number, letter in enumerate(_ALPHABET)}
_HASH_LETTERS = 22
_PREFIX = "run_"


_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_PAIR_SHIFTS = tuple(range(10 * (_HASH_LETTERS // 2 - 1), -1, -10))


def run_id(slot: int, origin: str, app: str, workflow: str) -> str:
    """The id of the run that an origin starts of a workflow.

    The same origin gives the same id, so fanning out twice starts one run
    (P46). A client's event id is never part of it, since those may repeat.

    Args:
        slot: The workflow's home, 0 to 1023.
        origin: What started it, for example `event:duraton.events/3/120`.
        app: The app's name.
        workflow: The workflow's name.

    Returns:
        `run_`, two letters of slot, 22 letters of hash.
    """
    digest = blake2b(digest_size=14)
    for part in (origin, app, workflow):
        raw = part.encode()
        digest.update(len(raw).to_bytes(4, "big"))
        digest.update(raw)
    number = int.from_bytes(digest.digest(), "big") >> 2
    pairs = _PAIRS
    letters = "".join([pairs[number >> shift & 1023] for shift in _PAIR_SHIFTS])
    return f"{_PREFIX}{pairs[slot]}{letters}"


@lru_cache(maxsize=2_048)
def run_slot(run: str) -> int:
    """The slot written in a run's id.

    Raises:
        BadRecordError: The text is no run id.
    """
    body = run[len(_PREFIX) :]
    if (
        not run.startswith(_PREFIX)
        or len(body) != _HASH_LETTERS + 2
        or any(letter not in _VALUE for letter in body)
    ):
        raise BadRecordError(f"{run!r} is no run id")
    slot = _VALUE[body[0]] * 32 + _VALUE[body[1]]
    if slot >= SLOTS:
        raise BadRecordError(f"{run!r} names a slot that does not exist")
    return slot


class Token(NamedTuple):
    """Who may report for a run: the invocation that its partition's owner made last."""

    partition: int
    epoch: int
    number: int

    def __str__(self) -> str:
        return f"{self.partition}.{self.epoch}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> "Token":
        """Read `partition.epoch.number`.

        Raises:
            BadRecordError: The text is no token.
        """
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            raise BadRecordError(f"{text!r} is no token")
        return cls(int(parts[0]), int(parts[1]), int(parts[2]))
