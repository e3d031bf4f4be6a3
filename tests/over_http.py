"""The HTTP API over an engine of a test: called while it goes on and time stands still."""

import httpx

from duraton_api.http import HttpSettings, create_app
from duraton_api.http.metrics import Metrics
from duraton_api.node.backend import NodeBackend

URL = "http://localhost"


class Http:
    """A client of an engine's HTTP API; made anew after a crash."""

    def __init__(self, engine, **settings):
        self.engine = engine
        backend = NodeBackend(engine.core, Metrics(), HttpSettings(**settings))
        transport = httpx.ASGITransport(create_app(backend), client=("127.0.0.1", 1))
        self.client = httpx.AsyncClient(transport=transport, base_url=URL)

    async def ask(self, method, path, **more):
        return await self.engine.during(self.client.request(method, path, **more))

    async def get(self, path, **more):
        return await self.ask("GET", path, **more)

    async def put(self, path, **more):
        return await self.ask("PUT", path, **more)

    async def post(self, path, **more):
        return await self.ask("POST", path, **more)
