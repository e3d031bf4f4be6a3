"""What holds for the whole project: `GET /project`, `PUT /project`."""

import msgspec
from starlette.responses import Response

from duraton_api.errors import PendingError, RefusedError
from duraton_api.http.backend import Backend
from duraton_api.http.call import Call, command_id, json_answer, read_json
from duraton_api.http.reading import fresh
from duraton_engine.registrations import PROJECT
from duraton_schemas.options import ProjectOptions
from duraton_schemas.records.commands import SetProject

BODY_BYTES_MAX = 4_096
_PARAMETERS = frozenset({"consistency"})
_NONE: frozenset[str] = frozenset()


class ProjectBody(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """What `GET` answers and `PUT` takes.

    Attributes:
        ceiling: How many runs execute at once, whatever their workflow; 0 for no limit.
            It is never left out: an empty body must not take a limit away.
    """

    ceiling: int


class ProjectSet(msgspec.Struct, rename="camel", kw_only=True):
    """What was set.

    Attributes:
        ceiling: As given.
        version: The registry's version that it made; 0 where nothing was ever set.
        pending: Whether it is recorded and not known to be in force yet.
    """

    ceiling: int
    version: int = 0
    pending: bool = False


_decoder = msgspec.json.Decoder(ProjectBody)
_options = msgspec.json.Decoder(ProjectOptions)


class ProjectApi:
    """The calls about the project.

    Args:
        backend: The node.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def get(self, call: Call) -> Response:
        """The ceiling in force, in the form in which it may be put back."""
        await fresh(self._backend, call.query(_PARAMETERS))
        view = self._backend.view
        body = await view.ask(view.reads.registry, PROJECT, PROJECT)
        options = ProjectOptions() if body is None else _options.decode(body)
        return json_answer(ProjectBody(options.ceiling))

    async def put(self, call: Call) -> Response:
        """Set the ceiling; no run that executes is stopped by a lower one."""
        call.query(_NONE)
        given = read_json(await call.body(BODY_BYTES_MAX), _decoder)
        ProjectOptions(ceiling=given.ceiling).check()
        command = SetProject(
            id=command_id(),
            caller=call.principal.caller,
            ceiling=given.ceiling,
        )
        try:
            reply = await self._backend.command(command)
        except PendingError:
            pending = ProjectSet(ceiling=given.ceiling, pending=True)
            return json_answer(pending, PendingError.status)
        if not reply.ok:
            raise RefusedError(reply.message or "the ceiling was refused", reply.code)
        return json_answer(ProjectSet(ceiling=given.ceiling, version=reply.version))
