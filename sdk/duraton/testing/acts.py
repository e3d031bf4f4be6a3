"""Acts of a test: on one run, on ended runs, on many; the same code as the HTTP API's."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from duraton.errors import RefusedError
from duraton.testing.host import TESTER, Host
from duraton_api.acts import Acts
from duraton_api.acts.choosing import Choice, input_text
from duraton_api.errors import BadRequestError, NotFoundError, RunGoneError
from duraton_api.errors import RefusedError as ApiRefusedError
from duraton_api.node.core import Core
from duraton_api.view.view import View
from duraton_engine.effects import Reply
from duraton_schemas.records import commands

T = TypeVar("T")

_ON_ACTIVE: Mapping[str, Callable[..., commands.Command]] = {
    "pause": commands.PauseRun,
    "resume": commands.ResumeRun,
    "cancel": commands.CancelRun,
}
_REFUSALS = (BadRequestError, NotFoundError, RunGoneError, ApiRefusedError)


class _Access:
    """A test's core, as acts need a node."""

    def __init__(self, core: Core, timeout_s: float) -> None:
        self._core = core
        self._timeout_s = timeout_s
        self.journal_ends = core.journal_ends

    @property
    def view(self) -> View:
        return self._core.view

    async def command(self, command: commands.Command) -> Reply:
        return await self._core.command(command, self._timeout_s)


async def act(host: Host, timeout_s: float, run: str, name: str, details: dict[str, Any]) -> Reply:
    """Act on one run.

    Args:
        host: The engine.
        timeout_s: Real seconds that an answer may take.
        run: The run's id.
        name: `pause`, `resume`, `cancel`, `replay` or `retry-from-step`.
        details: What the act takes.

    Raises:
        RefusedError: It was refused.
    """
    kind = _ON_ACTIVE.get(name)
    if kind is not None:
        return await command(host, timeout_s, kind, {"run": run, **details})
    if name == "replay":
        return await ask(host, timeout_s, lambda acts: _replay(acts, run, **details))
    if name == "retry-from-step":
        return await ask(host, timeout_s, lambda acts: _retry(acts, run, **details))
    raise ValueError(f"{name!r} is no act on a run")


async def command(
    host: Host, timeout_s: float, kind: Callable[..., commands.Command], fields: Mapping[str, Any]
) -> Reply:
    """Let the engine carry out a command of the test's.

    Args:
        host: The engine.
        timeout_s: Real seconds that an answer may take.
        kind: The command.
        fields: Its fields but `id` and `caller`.

    Raises:
        RefusedError: It was refused.
    """
    reply = await host.ask(
        lambda core: core.command(kind(id=core.new_id(), caller=TESTER, **fields), timeout_s)
    )
    if not reply.ok:
        raise RefusedError(reply.code or "refused", reply.message or "refused")
    return reply


async def _replay(acts: Acts, run: str, *, dedupe_id: str | None = None) -> Reply:
    return await acts.replay(TESTER, run, None, dedupe_id)


async def _retry(
    acts: Acts,
    run: str,
    *,
    step: str,
    n: int | None = None,
    input: Any = None,
    dedupe_id: str | None = None,
) -> Reply:
    choice = Choice(step, n, input_text(input))
    return await acts.replay(TESTER, run, choice, dedupe_id)


async def ask(host: Host, timeout_s: float, make: Callable[[Acts], Awaitable[T]]) -> T:
    """Ask for an act while the engine goes on.

    Raises:
        RefusedError: It was refused.
    """

    async def asked(core: Core) -> T:
        return await make(Acts(_Access(core, timeout_s), core.new_id))

    try:
        return await host.ask(asked)
    except _REFUSALS as error:
        raise RefusedError(error.code, str(error)) from error
