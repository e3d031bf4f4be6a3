"""Where the engine is and how to be let in, from arguments or the environment."""

import os
from importlib.metadata import PackageNotFoundError, version

URL_DEFAULT = "http://127.0.0.1:8420"


def engine_url(url: str | None) -> str:
    """The engine's address: the argument, DURATON_URL, or this machine's."""
    return (url or os.environ.get("DURATON_URL") or URL_DEFAULT).rstrip("/")


def auth_headers(api_key: str | None) -> dict[str, str]:
    """The Authorization header of the argument or DURATON_API_KEY; none without a key."""
    key = api_key or os.environ.get("DURATON_API_KEY")
    return {"Authorization": f"Bearer {key}"} if key else {}


def sdk_version() -> str:
    """The SDK's language and version."""
    try:
        return f"python/{version('duraton')}"
    except PackageNotFoundError:  # a source tree that is not installed
        return "python/dev"
