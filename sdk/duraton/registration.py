"""Telling an engine which workflows a served app has: `PUT /apps/{app}`."""

import logging
from typing import TYPE_CHECKING
from urllib.parse import quote

from duraton.environment import auth_headers, engine_url
from duraton.errors import RegistrationRefusedError
from duraton_schemas.options import AppOptions, write_app

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger("duraton")

REQUEST_S = 10.0
"""A registration is one small command; an engine that is silent for longer is away."""


async def register_app(engine: str, app: AppOptions, api_key: str | None) -> bool:
    """Register an app.

    Args:
        engine: The engine's address.
        app: Its options, with the URL at which it is served.
        api_key: Left out, DURATON_API_KEY.

    Returns:
        False where the engine could not be reached or was not ready: try again.

    Raises:
        RegistrationRefusedError: The engine answered that it will not have it.
    """
    import httpx  # noqa: PLC0415 - slow to import, and only used where an app registers itself

    url = f"{engine_url(engine)}/apps/{quote(app.name, safe='')}"
    headers = {"content-type": "application/json", **auth_headers(api_key)}
    try:
        async with httpx.AsyncClient(timeout=REQUEST_S) as client:
            response = await client.put(url, content=write_app(app), headers=headers)
    except httpx.HTTPError as error:
        _log.warning("app %s is not registered yet: %s: %s", app.name, url, error)
        return False
    if response.is_success:
        return True
    if response.status_code >= 500 or response.status_code in (408, 429):
        _log.warning("app %s is not registered yet: HTTP status %d", app.name, response.status_code)
        return False
    code, message = problem_of(response)
    raise RegistrationRefusedError(f"app {app.name}: {message} ({code})")


def problem_of(response: "httpx.Response") -> tuple[str, str]:
    """Code and message of a problem document, or of the bare status."""
    fallback = f"http-{response.status_code}", f"HTTP status {response.status_code}"
    try:
        found = response.json()
    except ValueError:
        return fallback
    if not isinstance(found, dict):
        return fallback
    message = found.get("detail") or found.get("title") or fallback[1]
    return str(found.get("code") or fallback[0]), str(message)
