"""Replay, retry from a step, and acts on many runs, as people and programs ask for them."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from duraton_api.acts.carrying import Asked, replay_commands
from duraton_api.acts.choosing import Choice
from duraton_api.acts.filtering import bulk_filter
from duraton_api.errors import PendingError, RefusedError, RunUnknownError
from duraton_api.view import View, shapes
from duraton_api.view.filters import RunFilter
from duraton_api.view.selecting import sample_runs, select_ids
from duraton_api.view.whole import WholeRun, read_whole
from duraton_engine.effects import Reply
from duraton_schemas.records.commands import AddJobRuns, Command, StartJob
from duraton_schemas.records.common import Caller

ACTS_AT_ONCE = 8
"""Acts whose runs are in memory at once; others wait for their turn."""
IDS_MAX = 1_000
"""Ids in one command: about 30 KB."""


class Access(Protocol):
    """What acts need of a node."""

    @property
    def view(self) -> View:
        """The node's view."""

    async def command(self, command: Command) -> Reply:
        """Carry out a command.

        Raises:
            PendingError: It is recorded, and was not answered in time.
        """

    def journal_ends(self) -> Mapping[int, int]:
        """For each partition the offset after its last committed fact."""


class Acts:
    """Acts on ended runs, and on many runs.

    Args:
        access: The node.
        new_id: Gives a random id.
    """

    def __init__(
        self, access: Access, new_id: Callable[[], str] = lambda: secrets.token_hex(12)
    ) -> None:
        self._access = access
        self._new_id = new_id
        self._places = asyncio.Semaphore(ACTS_AT_ONCE)

    # One run --------------------------------------------------------------------------

    async def replay(
        self,
        caller: Caller,
        run: str,
        choice: Choice | None = None,
        dedupe_id: str | None = None,
    ) -> Reply:
        """Make a fresh run of the same trigger.

        Args:
            caller: Who asks.
            run: The run that is repeated.
            choice: The step to begin again with, or None: the first.
            dedupe_id: Two requests of the same id make one run (P40).

        Returns:
            The reply; its `run` is the new run.

        Raises:
            RunUnknownError: The view does not know the run.
            RefusedError: It has not ended, or the engine refuses.
            RunGoneError: What started it is kept no longer.
            StepUnknownError: It has no such step.
            PendingError: The act is recorded, and was not answered in time.
        """
        async with self._places:
            whole = await self.read(run, steps=choice is not None)
            asked = Asked(caller, choice, dedupe_id)
            *parts, act = replay_commands(whole, asked, self._new_id())
            for part in parts:
                await self._send_ahead(part)
            reply = await self._access.command(act)
        if not reply.ok:
            raise RefusedError(reply.message or "the run cannot be replayed", reply.code)
        if reply.status is None and reply.run is not None:
            return msgspec.structs.replace(reply, status=await self._status(reply.run))
        return reply

    async def read(self, run: str, *, steps: bool) -> WholeRun:
        """A run whole, with everything that is committed now.

        Raises:
            RunUnknownError: The view does not know the run.
        """
        view = self._access.view
        await view.reached(self._access.journal_ends())
        whole = await view.ask(lambda: read_whole(view.reads, run, steps=steps))
        if whole is None:
            raise RunUnknownError(f"no run has the id {run!r}")
        return whole

    async def _send_ahead(self, command: Command) -> None:
        """Send a command that another follows."""
        try:
            reply = await self._access.command(command)
        except PendingError:
            return  # it is recorded, and decided about before what follows it
        if not reply.ok:
            raise RefusedError(reply.message or "it was refused", reply.code)

    async def _status(self, run: str) -> str | None:
        view = self._access.view
        await view.reached(self._access.journal_ends())
        return await view.ask(view.reads.run_status, run)

    # Many runs ------------------------------------------------------------------------

    async def dry_run(self, act: str, given: Mapping[str, Any]) -> shapes.DryRun:
        """What an act on many runs would be about.

        Args:
            act: `replay` or `cancel`.
            given: The filter's fields, as `GET /runs` has them.

        Raises:
            BadParameterError: A field cannot be read, or none is given.
        """
        wanted = bulk_filter(act, given)
        view = await self._fresh(wanted)
        total, sample = await view.ask(sample_runs, view.reads, wanted)
        return shapes.DryRun(act=act, total=total, sample=sample)

    async def bulk(
        self, caller: Caller, act: str, given: Mapping[str, Any], reason: str | None = None
    ) -> str:
        """Act on every run that a filter means, as a job; its runs are fixed now (P57).

        Args:
            caller: Who asks.
            act: `replay` or `cancel`.
            given: The filter's fields, as `GET /runs` has them.
            reason: Why, for people.

        Returns:
            The job's id.

        Raises:
            BadParameterError: A field of the filter cannot be read, or none is given.
            RefusedError: Too many jobs are under way.
        """
        wanted = bulk_filter(act, given)
        async with self._places:
            view = await self._fresh(wanted)
            runs = await view.ask(select_ids, view.reads, wanted)
            new_id = self._new_id()
            job = f"job_{new_id}"
            parts = range(0, len(runs), IDS_MAX)
            for number, first in enumerate(parts):
                added = AddJobRuns(
                    id=f"cmd_{new_id}_{number}",
                    caller=caller,
                    job=job,
                    part=number,
                    runs=runs[first : first + IDS_MAX],
                )
                await self._send_ahead(added)
            start = StartJob(
                id=f"cmd_{new_id}",
                caller=caller,
                job=job,
                act=act,
                filter=msgspec.json.encode(given).decode(),
                parts=len(parts),
                total=len(runs),
                reason=reason,
            )
            await self._send_ahead(start)
        return job

    async def job(self, job: str) -> shapes.JobShape | None:
        """A job with everything that is committed now, or None where it is not known."""
        view = self._access.view
        await view.reached(self._access.journal_ends())
        return await view.ask(view.reads.job, job)

    async def _fresh(self, wanted: RunFilter) -> View:
        view = self._access.view
        await view.reached(self._access.journal_ends())
        if wanted.q:
            await view.ask(view.search_ready)
        return view
