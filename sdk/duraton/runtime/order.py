"""The results of one run and the order in which its handler gets them (DESIGN 8).

Every result has a number, in the order of commits. What was recorded also says
which steps had been called by when (`seen`), so a replay waits for the same calls
before it goes on.
"""

from duraton_schemas.wire.frames import StepMemo

Key = tuple[str, int]
"""A step's id and which use of it this is (P42)."""


class Order:
    """Which result is next, and which recorded steps should have been called by now.

    Args:
        memos: The steps that an invocation brought.

    Attributes:
        seen: The number of the last result that the handler was given.
    """

    def __init__(self, memos: list[StepMemo]) -> None:
        self.seen = 0
        self.memos: dict[Key, StepMemo] = {}
        self._results: dict[int, tuple[Key, str]] = {}
        self._numbered: set[Key] = set()
        self._by_seen: dict[int, set[Key]] = {}
        self._expected: set[Key] = set()
        self._recorded = 0
        done: list[StepMemo] = []
        for memo in memos:
            key = (memo.step, memo.n)
            self.memos[key] = memo
            if memo.seen:
                self._by_seen.setdefault(memo.seen, set()).add(key)
            else:
                self._expected.add(key)
            if memo.status == "done":
                done.append(memo)
        # Numbers may have gaps: each recorded result is followed by the next recorded
        # one, and only live ones are counted up.
        self._next_of: dict[int, int] = {}
        last = 0
        for memo in sorted(done, key=lambda memo: memo.number):
            self.put((memo.step, memo.n), memo.number, memo.output)
            if memo.number != last + 1:
                self._next_of[last] = memo.number
            last = memo.number
        self._recorded = last

    @property
    def replaying(self) -> bool:
        """Whether recorded results remain that the handler has not been given."""
        return self.seen < self._recorded

    @property
    def waiting(self) -> bool:
        """Whether a result is held that the handler has not been given."""
        return bool(self._results)

    @property
    def complete(self) -> bool:
        """Whether all recorded steps have been called that had been called by now."""
        return not self._expected

    def put(self, key: Key, number: int, output: str | None) -> bool:
        """Keep a result; False where it is known already."""
        if number <= self.seen or number in self._results or key in self._numbered:
            return False
        self._results[number] = (key, "null" if output is None else output)
        self._numbered.add(key)
        return True

    def next(self) -> tuple[Key, str] | None:
        """The next result in order, or None where it has not come."""
        return self._results.get(self._next_of.get(self.seen, self.seen + 1))

    def called(self, key: Key) -> StepMemo | None:
        """A step is called; what is recorded of it, or None."""
        memo = self.memos.get(key)
        if memo is not None:
            self._expected.discard(key)
            early = self._by_seen.get(memo.seen)
            if early is not None:
                early.discard(key)
        return memo

    def given(self) -> None:
        """The handler was given the next result."""
        number = self._next_of.get(self.seen, self.seen + 1)
        del self._results[number]
        if self._by_seen:
            for passed in range(self.seen + 1, number + 1):
                self._expected |= self._by_seen.pop(passed, set())
        self.seen = number
