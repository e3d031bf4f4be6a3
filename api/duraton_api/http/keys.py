"""API keys: names and scopes by the hash of the secret, and who may call without any."""

import base64
import binascii
import hashlib
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from duraton_api.errors import ForbiddenError, NotLocalError, UnauthorizedError
from duraton_schemas.records.common import Caller

EVENTS, READ, ACT, REGISTER, RUNNER, ADMIN = (
    "events",
    "read",
    "act",
    "register",
    "runner",
    "admin",
)
"""What a key may do: send events, read, act on runs, register apps, execute runs, everything."""

DEV_KEY = "dev"
"""Everybody's name where no keys are configured (P53)."""

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_LARGEST_SECRET = 512

Scope = Mapping[str, Any]


@dataclass(frozen=True)
class ApiKey:
    """A key.

    Attributes:
        name: Who has it; it is the caller's id.
        digest: SHA-256 of the secret, in hexadecimal; the secret itself is kept nowhere.
        scopes: What it may do.
    """

    name: str
    digest: str
    scopes: frozenset[str] = frozenset({ADMIN})


@dataclass(frozen=True)
class Principal:
    """Who calls.

    Attributes:
        caller: As it is recorded.
        scopes: What it may do.
    """

    caller: Caller
    scopes: frozenset[str]

    def require(self, scope: str) -> None:
        """Refuse unless the key may do this.

        Raises:
            ForbiddenError: It may not.
        """
        if scope not in self.scopes and ADMIN not in self.scopes:
            raise ForbiddenError(f"the key {self.caller.id!r} lacks the scope {scope!r}")


def digest_of(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def principal_of(name: str, scopes: frozenset[str]) -> Principal:
    """A key's principal."""
    return Principal(Caller(kind="key", id=name, root=f"key:{name}"), scopes)


class Keyring:
    """Who may call.

    Args:
        keys: The keys; with none, callers of this machine only.
        hosts: Further names that a keyless server may be called by.
    """

    def __init__(self, keys: Iterable[ApiKey], hosts: frozenset[str] = frozenset()) -> None:
        self._keys = {key.digest: principal_of(key.name, key.scopes) for key in keys}
        self._hosts = _LOOPBACK_NAMES | hosts
        self._dev = principal_of(DEV_KEY, frozenset({ADMIN}))

    def authenticate(self, scope: Scope) -> Principal:
        """Who makes a request, HTTP or WebSocket.

        Args:
            scope: The ASGI scope.

        Raises:
            UnauthorizedError: There are keys, and it brings none of them.
            NotLocalError: There are none, and it does not come from this machine.
        """
        headers = scope["headers"]
        if not self._keys:
            self._check_local(scope, headers)
            return self._dev
        secret = _secret(_header(headers, b"authorization"))
        if secret is None:
            raise UnauthorizedError("the request brings no key")
        found = self._keys.get(digest_of(secret))
        if found is None:
            raise UnauthorizedError("the key is not known")
        return found

    def _check_local(self, scope: Scope, headers: Iterable[tuple[bytes, bytes]]) -> None:
        client = scope.get("client")
        if client is not None and not _is_loopback(client[0]):
            raise NotLocalError(f"no keys are configured, and {client[0]} is another machine")
        # A page of the web may make a browser of this machine call; its names give it away.
        host = _header(headers, b"host")
        if host is not None and _name(f"//{host}") not in self._hosts:
            raise NotLocalError(f"no keys are configured, and the host {host!r} is not loopback")
        origin = _header(headers, b"origin")
        if origin is not None and _name(origin) not in self._hosts:
            raise NotLocalError(f"no keys are configured, and the page is of {origin!r}")
        if _header(headers, b"sec-fetch-site") == "cross-site":
            raise NotLocalError("no keys are configured, and the request is of another site")


def _header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


@lru_cache(maxsize=1_000)
def _name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


@lru_cache(maxsize=1_000)
def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _secret(header: str | None) -> str | None:
    """The secret of `Bearer x`, or of `Basic` for tools that know no other (as its password)."""
    if header is None or len(header) > _LARGEST_SECRET:
        return None
    kind, _, rest = header.partition(" ")
    if kind.lower() == "bearer":
        return rest.strip() or None
    if kind.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return password or user or None
