"""The ASGI application: every path, the guard around it, and errors of routing."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from duraton_api.errors import NotYetError
from duraton_api.http.acts import ActsApi
from duraton_api.http.backend import Backend
from duraton_api.http.call import Call, Endpoint
from duraton_api.http.events import EventsApi
from duraton_api.http.flow import FlowApi
from duraton_api.http.guard import Guard, problem_response
from duraton_api.http.keys import ACT, EVENTS, READ, REGISTER, Keyring
from duraton_api.http.prices import PricesApi
from duraton_api.http.project import ProjectApi
from duraton_api.http.runs import RunsApi
from duraton_api.http.system import SystemApi
from duraton_api.http.workflows import WorkflowsApi
from duraton_api.problems import http_problem


def create_app(
    backend: Backend,
    extra_routes: Sequence[BaseRoute] = (),
    *,
    keyring: Keyring | None = None,
) -> Starlette:
    """The HTTP API over a node.

    Args:
        backend: The node.
        extra_routes: Further routes, looked at first, for example the runners'
            WebSocket. What they raise becomes problem documents as well, and
            `scope["duraton.principal"]` says who calls.
        keyring: Who may call; made of the backend's settings where None.
    """
    settings = backend.settings
    keyring = keyring or Keyring(settings.keys, settings.hosts)
    guard = Middleware(Guard, keyring=keyring, metrics=backend.metrics)
    return Starlette(
        routes=[*extra_routes, *_routes(backend)],
        middleware=[guard],
        exception_handlers={HTTPException: _http_error},
    )


def _routes(backend: Backend) -> list[Route]:
    events, runs = EventsApi(backend), RunsApi(backend)
    workflows, system = WorkflowsApi(backend), SystemApi(backend)
    prices, project = PricesApi(backend), ProjectApi(backend)
    acts = ActsApi(backend)
    flow = FlowApi(backend)
    table: list[tuple[str, Endpoint]] = [
        ("/events", Endpoint(POST=(EVENTS, events.post), GET=(READ, events.list))),
        ("/events/{id:path}", Endpoint(GET=(READ, events.get))),
        ("/runs", Endpoint(GET=(READ, runs.list))),
        ("/runs/bulk-replay", Endpoint(POST=(ACT, acts.bulk_replay))),
        ("/runs/bulk-cancel", Endpoint(POST=(ACT, acts.bulk_cancel))),
        ("/runs/{id}", Endpoint(GET=(READ, runs.get))),
        ("/runs/{id}/journal", Endpoint(GET=(READ, runs.journal))),
        ("/runs/{id}/pause", Endpoint(POST=(ACT, runs.pause))),
        ("/runs/{id}/resume", Endpoint(POST=(ACT, runs.resume))),
        ("/runs/{id}/cancel", Endpoint(POST=(ACT, runs.cancel))),
        ("/runs/{id}/replay", Endpoint(POST=(ACT, acts.replay))),
        ("/runs/{id}/retry-from-step", Endpoint(POST=(ACT, acts.retry_from_step))),
        ("/jobs", Endpoint(GET=(READ, acts.jobs))),
        ("/jobs/{id}", Endpoint(GET=(READ, acts.job))),
        ("/jobs/{id}/stop", Endpoint(POST=(ACT, acts.stop_job))),
        ("/workflows", Endpoint(GET=(READ, workflows.list))),
        ("/workflows/{app}/{name:path}", Endpoint(GET=(READ, workflows.get))),
        ("/apps/{app:path}", Endpoint(PUT=(REGISTER, workflows.register))),
        ("/runners", Endpoint(GET=(READ, workflows.runners))),
        ("/flow-state", Endpoint(GET=(READ, flow.state))),
        ("/flow-state/detail", Endpoint(GET=(READ, flow.detail))),
        ("/project", Endpoint(GET=(READ, project.get), PUT=(ACT, project.put))),
        ("/prices", Endpoint(GET=(READ, prices.get), PUT=(ACT, prices.put))),
        ("/stream", Endpoint(GET=(READ, _not_yet))),
        ("/healthz", Endpoint(GET=(None, system.health))),
        ("/readyz", Endpoint(GET=(None, system.ready))),
        ("/metrics", Endpoint(GET=(READ, system.metrics))),
        ("/subjects", Endpoint(GET=(READ, system.subjects))),
        ("/subjects/{subject}/versions", Endpoint(GET=(READ, system.versions))),
        ("/subjects/{subject}/versions/{version}", Endpoint(GET=(READ, system.version))),
        ("/schemas/ids/{id}", Endpoint(GET=(READ, system.schema))),
    ]
    return [Route(path, endpoint) for path, endpoint in table]


async def _not_yet(call: Call) -> Response:
    """What this version does not carry out."""
    raise NotYetError(f"{call.scope['method']} {call.scope['path']} is not carried out yet")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is registered for that type alone"
    detail = f"{request.method} {request.url.path}: {error.detail}"
    return problem_response(http_problem(error.status_code, detail))
