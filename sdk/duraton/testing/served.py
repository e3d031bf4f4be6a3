"""Served apps inside a test: the real ASGI application over the real client code."""

from typing import Any

import httpx

from duraton.app import App
from duraton_api.runners.http import ClientTransport


class Served:
    """The apps that are served, each under a host name of its own."""

    def __init__(self) -> None:
        self._apps: dict[str, Any] = {}
        self._client: httpx.AsyncClient | None = None

    def add(self, app: App, observer: Any) -> str:
        """Serve an app, or its newer version; answers its URL."""
        from duraton import serve  # noqa: PLC0415 - only where the transport is serve

        self._apps[app.name] = serve(app, observer=observer, now_ms=observer.time.now_ms)
        return f"http://runner.test/{app.name}"

    def transport(self) -> ClientTransport:
        """What carries the engine's requests."""
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(self._route))
        return ClientTransport(self._client)

    async def _route(self, scope: Any, receive: Any, send: Any) -> None:
        name = scope["path"].strip("/")
        await self._apps[name](scope, receive, send)

    def threads_executing(self) -> int:
        """Worker threads that execute steps now."""
        return sum(app.threads_executing for app in self._apps.values())

    def cut(self) -> None:
        """The engine died: its requests are gone."""

    async def close(self) -> None:
        """End."""
        if self._client is not None:
            await self._client.aclose()
