"""The HTTP API over a node: `create_app(backend)` gives the ASGI application."""

from duraton_api.http.app import create_app
from duraton_api.http.backend import Backend, HttpSettings

__all__ = ["Backend", "HttpSettings", "create_app"]
