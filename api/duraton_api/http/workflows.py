"""Registrations: `PUT /apps/{app}`, `GET /workflows`, `GET /runners`."""

import msgspec
from starlette.responses import Response

from duraton_api.errors import PendingError, RefusedError, WorkflowUnknownError
from duraton_api.http.backend import Backend
from duraton_api.http.call import Call, command_id, json_answer
from duraton_api.http.reading import fresh
from duraton_api.view import shapes
from duraton_schemas.options import read_app, write_app
from duraton_schemas.records.commands import RegisterApp

_LIST_PARAMETERS = frozenset({"app", "consistency"})
_ONE_PARAMETERS = frozenset({"consistency"})
_NONE: frozenset[str] = frozenset()


class Registered(msgspec.Struct, rename="camel", kw_only=True):
    """An app's registration in force.

    Attributes:
        app: The app's name.
        version: The registry's version that it made.
        warnings: What works otherwise than its author may think.
    """

    app: str
    version: int
    warnings: list[str]
    pending: bool = False


class WorkflowShape(msgspec.Struct, rename="camel", kw_only=True):
    """A workflow and who executes it.

    Attributes:
        app: Its app.
        name: Its name.
        version: The registry's version of its registration.
        active: Whether its app still has it.
        options: As registered, in wire form.
        runners: Names of the runners that offer it now.
    """

    app: str
    name: str
    version: int
    active: bool
    options: msgspec.Raw
    runners: list[str]


class WorkflowsApi:
    """The calls about registrations.

    Args:
        backend: The node.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def register(self, call: Call) -> Response:
        """Register an app's workflows, all or nothing."""
        call.query(_NONE)
        name = call.path("app")
        raw = await call.body(self._backend.settings.body_bytes_max)
        options = read_app(raw, name)
        command = RegisterApp(
            id=command_id(),
            caller=call.principal.caller,
            app=name,
            body=write_app(options),
        )
        try:
            reply = await self._backend.command(command)
        except PendingError:
            pending = Registered(app=name, version=0, warnings=[], pending=True)
            return json_answer(pending, PendingError.status)
        if not reply.ok:
            refusal = reply.message or f"the registration of {name} was refused"
            raise RefusedError(refusal, reply.code)
        answer = Registered(app=name, version=reply.version, warnings=list(reply.warnings))
        return json_answer(answer)

    async def list(self, call: Call) -> Response:
        """Every workflow that is registered."""
        query = call.query(_LIST_PARAMETERS)
        await fresh(self._backend, query)
        view = self._backend.view
        found = await view.ask(view.reads.workflows)
        app = query.get("app")
        shown = [self._shape(w) for w in found if app is None or w.app == app]
        return json_answer({"workflows": shown})

    async def get(self, call: Call) -> Response:
        """One workflow with its options."""
        query = call.query(_ONE_PARAMETERS)
        await fresh(self._backend, query)
        view = self._backend.view
        app, name = call.path("app"), call.path("name")
        found = await view.ask(view.reads.workflow, app, name)
        if found is None:
            raise WorkflowUnknownError(f"no app {app!r} has registered a workflow {name!r}")
        return json_answer(self._shape(found))

    def _shape(self, item: shapes.WorkflowItem) -> WorkflowShape:
        key = (item.app, item.name)
        names = sorted({r.name for r in self._backend.runners() if key in r.offers})
        return WorkflowShape(
            app=item.app,
            name=item.name,
            version=item.version,
            active=item.active,
            options=item.options,
            runners=names,
        )

    async def runners(self, call: Call) -> Response:
        """The runners that this node knows."""
        call.query(_NONE)
        return json_answer({"runners": list(self._backend.runners())})
