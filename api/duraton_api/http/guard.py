"""The outermost layer: who calls, and errors as problem documents. HTTP and WebSocket."""

import time
from typing import Any

from msgspec.structs import replace
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from duraton_api.errors import ApiError, MethodNotAllowedError, SchemaMissingError
from duraton_api.http.call import PRINCIPAL, Receive, Scope, Send
from duraton_api.http.keys import RUNNER, Keyring
from duraton_api.http.metrics import Metrics
from duraton_api.problems import MEDIA_TYPE, Problem, problem_of

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""What a load balancer may ask without a key."""
SCHEMA_NOT_FOUND = 40403
"""The Schema Registry's own number for it."""
POLICY_VIOLATION = 1008
"""The WebSocket close code for a caller that is not allowed."""


class Guard:
    """Finds out who calls, and turns what is raised into problem documents.

    Args:
        app: The application inside.
        keyring: Who may call.
        metrics: Where requests are counted.
    """

    def __init__(self, app: Any, *, keyring: Keyring, metrics: Metrics) -> None:
        self._app = app
        self._keyring = keyring
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        status = 0

        async def watch(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if scope["path"] not in OPEN_PATHS:
                scope[PRINCIPAL] = self._keyring.authenticate(scope)
            else:
                scope[PRINCIPAL] = None
            await self._app(scope, receive, watch)
        except ClientDisconnect:
            status = status or 400
        except Exception as error:  # whatever it is, the caller gets a document and no traceback
            problem = problem_of(error)
            if status:
                raise  # the answer has begun: only closing the connection says that it is broken
            await problem_response(problem, error)(scope, receive, watch)
        if status:
            self._metrics.request(status, time.perf_counter() - began)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            principal = self._keyring.authenticate(scope)
            # Only runners come by WebSocket; who may read must not be given people's runs.
            principal.require(RUNNER)
            scope[PRINCIPAL] = principal
        except ApiError as error:
            await receive()  # websocket.connect
            await send(
                {"type": "websocket.close", "code": POLICY_VIOLATION, "reason": str(error)[:120]}
            )
            return
        await self._app(scope, receive, send)


def problem_response(problem: Problem, error: Exception | None = None) -> Response:
    """The answer that carries a problem document."""
    headers = problem.headers()
    if isinstance(error, MethodNotAllowedError):
        headers["allow"] = ", ".join(error.methods)
    if isinstance(error, SchemaMissingError):
        problem = registry_problem(problem)
    return Response(problem.body(), problem.status, headers, MEDIA_TYPE)


def registry_problem(problem: Problem) -> Problem:
    """A problem that clients of a Schema Registry read as well."""
    return replace(problem, error_code=SCHEMA_NOT_FOUND, message=problem.detail)
