"""Calls to an engine's HTTP API."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from duraton_api.cli.errors import CommandFailedError
from duraton_api.cli.options import usage

ANSWER_S = 30.0
"""How long an answer may take: an event's fan-out has 5 s, a read 2 s for the view and
5 s for its query, and the rest is for a slow network."""
CONNECT_S = 5.0


class Remote:
    """An engine, as commands talk to it.

    Args:
        url: Its address.
        api_key: The key to send, or None.
    """

    def __init__(self, url: str, api_key: str | None) -> None:
        if not url.startswith(("http://", "https://")):
            raise usage(f"{url!r} is no address", "Write it as http://HOST:PORT.")
        self.url = url.rstrip("/")
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        try:
            self._client = httpx.Client(
                base_url=self.url,
                headers=headers,
                timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise usage(
                f"{url!r} is no address: {error}", "Write it as http://HOST:PORT."
            ) from error

    def __enter__(self) -> "Remote":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """The JSON that a read answers.

        Raises:
            CommandFailedError: The engine is not there, or refuses.
        """
        return self._ask("GET", path, params=params)

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_S,
    ) -> Any:
        """The JSON that an act answers.

        Args:
            path: The call's path.
            body: Its JSON, or None for none.
            params: Its parameters.
            timeout_s: Seconds that the answer may take.

        Raises:
            CommandFailedError: The engine is not there, or refuses.
        """
        timeout = httpx.Timeout(timeout_s, connect=CONNECT_S)
        return self._ask("POST", path, json=body, params=params, timeout=timeout)

    def put(self, path: str, body: bytes) -> Any:
        """The JSON that a write answers.

        Args:
            path: The call's path.
            body: JSON, which is sent as it stands.

        Raises:
            CommandFailedError: The engine is not there, or refuses.
        """
        return self._ask("PUT", path, content=body, headers={"content-type": "application/json"})

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        try:
            response = self._client.request(method, path, **more)
        except httpx.TimeoutException as error:
            raise CommandFailedError(
                "engine-slow",
                f"the engine at {self.url} did not answer in time",
                "Look at `duraton doctor`. What was sent may have been recorded.",
            ) from error
        except httpx.UnsupportedProtocol as error:
            raise usage(f"{self.url} is no address", "Write it as http://HOST:PORT.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CommandFailedError(
                "engine-unreachable",
                f"no engine answers at {self.url}",
                "Start one with `duraton dev TARGET`, or name another with --url.",
            ) from error
        if response.is_success:
            return _json(response, self.url)
        raise _refusal(response, self.url)


def path_of(*parts: str) -> str:
    """A path of parts that may hold anything."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _json(response: httpx.Response, url: str) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise _stranger(response, url) from error


def _refusal(response: httpx.Response, url: str) -> CommandFailedError:
    try:
        problem = response.json()
        code, title = problem["code"], problem["title"]
    except (ValueError, KeyError, TypeError):
        return _stranger(response, url)
    detail = problem.get("detail") or title
    return CommandFailedError(str(code), str(detail), str(problem.get("advice") or ""))


def _stranger(response: httpx.Response, url: str) -> CommandFailedError:
    return CommandFailedError(
        "not-an-engine",
        f"what answers at {url} is no Duraton engine (HTTP status {response.status_code})",
        "Name the engine's address with --url or DURATON_URL.",
    )
