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


MODELS_URL_DEFAULT = "https://api.openai.com/v1"


def models_url(url: str | None) -> str:
    """Where models are called: the argument, OPENAI_BASE_URL, or OpenAI's own."""
    return (url or os.environ.get("OPENAI_BASE_URL") or MODELS_URL_DEFAULT).rstrip("/")


def models_key(api_key: str | None) -> str | None:
    """The key for calls of models: the argument or OPENAI_API_KEY; None without."""
    return api_key or os.environ.get("OPENAI_API_KEY") or None


def sdk_version() -> str:
    """The SDK's language and version."""
    try:
        return f"python/{version('duraton')}"
    except PackageNotFoundError:  # a source tree that is not installed
        return "python/dev"
