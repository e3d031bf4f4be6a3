"""Who waits: POSTs for their fan-out, commands for their reply and for what they registered."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from duraton_engine.effects import EventAccepted, EventAnswered, Reply
from duraton_streams.errors import OverloadedError

POSTS_MAX = 50_000
"""POSTs that may wait for their answers at once; further ones are refused (429)."""


@dataclass
class EventOutcome:
    """What became of one event of a POST.

    Attributes:
        event_id: The recorded event's id, or of a repeat the first one's; None until known.
        repeated: Whether it was a repeat of its dedupe id.
        pending: The (app, workflow) pairs that have not answered.
        answers: What each workflow made of it, in the order of matching.
    """

    event_id: str | None = None
    repeated: bool = False
    pending: set[tuple[str, str]] = field(default_factory=set)
    answers: list[EventAnswered] = field(default_factory=list)
    early: list[EventAnswered] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether nothing is to come."""
        return self.event_id is not None and not self.pending


class Post:
    """The events of one POST and what became of each."""

    def __init__(self, count: int) -> None:
        self.outcomes = [EventOutcome() for _ in range(count)]
        self.done = asyncio.get_running_loop().create_future()
        self._left = count

    def accepted(self, number: int, effect: EventAccepted) -> None:
        """An event was recorded, or was a repeat."""
        outcome = self.outcomes[number]
        if outcome.event_id is not None:
            return
        outcome.event_id = effect.event_id
        outcome.repeated = effect.repeated
        outcome.pending = set(effect.homes)
        for answer in outcome.early:
            self._add(outcome, answer)
        self._settle(outcome)

    def answered(self, number: int, effect: EventAnswered) -> None:
        """A workflow answered for an event."""
        outcome = self.outcomes[number]
        if outcome.event_id is None:
            outcome.early.append(effect)
            return
        if (effect.app, effect.workflow) in outcome.pending:
            self._add(outcome, effect)
            self._settle(outcome)

    @staticmethod
    def _add(outcome: EventOutcome, effect: EventAnswered) -> None:
        outcome.pending.discard((effect.app, effect.workflow))
        outcome.answers.append(effect)

    def _settle(self, outcome: EventOutcome) -> None:
        if outcome.complete:
            self._left -= 1
            if not self._left and not self.done.done():
                self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        """Nothing more can be known here."""
        if not self.done.done():
            self.done.set_exception(error)


class Waiting:
    """Everything that waits for effects, by the ids that effects carry."""

    def __init__(self) -> None:
        self._posts: dict[str, Post] = {}
        self._replies: dict[str, asyncio.Future[Reply]] = {}
        self._ended: Exception | None = None
        self._versions: dict[asyncio.Future[None], int] = {}

    def open_post(self, post: str, count: int) -> Post:
        """Begin to wait for a POST's events.

        Raises:
            OverloadedError: Too many POSTs wait already.
            EngineStoppedError: The process ends, so no answer would come.
        """
        self._refuse_late()
        if len(self._posts) >= POSTS_MAX:
            raise OverloadedError(f"{POSTS_MAX} POSTs wait for their answers already")
        waiting = self._posts[post] = Post(count)
        return waiting

    def close_post(self, post: str) -> None:
        """Wait no longer."""
        self._posts.pop(post, None)

    def open_reply(self, command: str) -> asyncio.Future[Reply]:
        """Begin to wait for a command's reply.

        Raises:
            EngineStoppedError: The process ends, so no answer would come.
        """
        self._refuse_late()
        future = self._replies[command] = asyncio.get_running_loop().create_future()
        return future

    def close_reply(self, command: str) -> None:
        """Wait no longer."""
        self._replies.pop(command, None)

    def open_version(self, version: int) -> asyncio.Future[None]:
        """Begin to wait until the registry is in force up to a version."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._versions[future] = version
        return future

    def close_version(self, future: asyncio.Future[None]) -> None:
        """Wait no longer."""
        self._versions.pop(future, None)

    def fail(self, error: Exception) -> None:
        """The process ends: nobody is left without an answer, and nobody begins to wait."""
        self._ended = error
        for post in self._posts.values():
            post.fail(error)
        futures: list[asyncio.Future[Any]] = [*self._replies.values(), *self._versions]
        for future in futures:
            if not future.done():
                future.set_exception(error)

    def _refuse_late(self) -> None:
        if self._ended is not None:
            raise self._ended

    def accepted(self, effect: EventAccepted) -> None:
        """Hand an event's acceptance to its POST."""
        post, _, number = effect.post.rpartition("/")
        waiting = self._posts.get(post)
        if waiting is not None:
            waiting.accepted(int(number), effect)

    def answered(self, effect: EventAnswered) -> None:
        """Hand a workflow's answer to its POST."""
        post, _, number = effect.post.rpartition("/")
        waiting = self._posts.get(post)
        if waiting is not None:
            waiting.answered(int(number), effect)

    def replied(self, effect: Reply) -> None:
        """Hand a reply to who asked."""
        future = self._replies.get(effect.id)
        if future is not None and not future.done():
            future.set_result(effect)

    def in_force(self, version: int) -> None:
        """Every partition decides by that version of the registry, or by a later one."""
        for future, wanted in self._versions.items():
            if wanted <= version and not future.done():
                future.set_result(None)
