"""A request and its answer, without a framework's detours: one small object a call."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, get_args
from urllib.parse import parse_qsl

import msgspec
from msgspec.inspect import is_struct_type
from msgspec.structs import fields
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from duraton_api.errors import (
    BadJsonError,
    BadParameterError,
    BusyError,
    MethodNotAllowedError,
    TooLargeError,
)
from duraton_api.http.keys import Principal

T = TypeVar("T")
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Scope = Any

PRINCIPAL = "duraton.principal"
"""Where the guard leaves the caller in the ASGI scope."""
QUERY_FIELDS_MAX = 50
BODIES_BYTES_MAX = 256 << 20
"""Bytes of all bodies whose calls are under way; callers are asked to come again."""


def command_id() -> str:
    """A new id for a command."""
    return f"cmd_{secrets.token_hex(12)}"


class _Bodies:
    """The bodies of the calls under way in this process, whose memory they are."""

    bytes = 0


_bodies = _Bodies()
_encoder = msgspec.json.Encoder()


class Call:
    """One request.

    Args:
        scope: The ASGI scope, with the principal that the guard found.
        receive: The ASGI channel that the body comes by.
    """

    __slots__ = ("_held", "_receive", "principal", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive
        self._held = 0
        self.principal: Principal = scope[PRINCIPAL]

    def path(self, name: str) -> str:
        """A parameter of the path."""
        value: str = self.scope["path_params"][name]
        return value

    def query(self, known: frozenset[str]) -> Mapping[str, str]:
        """The query's parameters.

        Args:
            known: The names that the call takes.

        Raises:
            BadParameterError: There is another name, or one stands twice.
        """
        raw: bytes = self.scope["query_string"]
        if not raw:
            return {}
        try:
            pairs = parse_qsl(
                raw.decode(),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=QUERY_FIELDS_MAX,
            )
        except ValueError as error:
            raise BadParameterError(f"the query cannot be read: {error}") from error
        found: dict[str, str] = {}
        for name, value in pairs:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise BadParameterError(f"{name!r} is no parameter of this call; it takes {listed}")
            if name in found:
                raise BadParameterError(f"{name!r} stands twice")
            found[name] = value
        return found

    async def body(self, limit: int) -> bytes:
        """The body.

        Args:
            limit: The most bytes; what is longer is refused while it comes.

        Raises:
            TooLargeError: It is longer.
            BusyError: The bodies of all requests under way are too much together.
            ClientDisconnect: The caller went away before the body was whole.
        """
        for name, value in self.scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > limit:
                raise TooLargeError(f"the body is {int(value)} bytes, the limit is {limit}")
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise TooLargeError(f"the body is above the limit of {limit} bytes")
            self._hold(len(part))
            if not message.get("more_body", False):
                return part if not parts else b"".join([*parts, part])
            parts.append(part)

    def _hold(self, size: int) -> None:
        self._held += size
        _bodies.bytes += size
        if _bodies.bytes > BODIES_BYTES_MAX:
            raise BusyError("too many long bodies are being received")

    def release(self) -> None:
        """The call is over: its body counts no more."""
        _bodies.bytes -= self._held
        self._held = 0


Handler = Callable[[Call], Awaitable[Response]]


class Endpoint:
    """What a path does, method by method; an ASGI application.

    Args:
        methods: For each method the scope that a key needs (None: no key at
            all), and the handler.
    """

    def __init__(self, **methods: tuple[str | None, Handler]) -> None:
        self._methods = methods
        if "GET" in methods:
            self._methods["HEAD"] = methods["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        entry = self._methods.get(scope["method"])
        if entry is None:
            raise MethodNotAllowedError(
                f"{scope['path']} does not take {scope['method']}", sorted(self._methods)
            )
        needed, handler = entry
        call = Call(scope, receive)
        if needed is not None:
            call.principal.require(needed)
        try:
            answer = await handler(call)
        finally:
            call.release()
        await answer(scope, receive, send)


def json_answer(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer in JSON."""
    return Response(_encoder.encode(value), status, headers, "application/json")


def read_json(raw: bytes, decoder: "msgspec.json.Decoder[T]") -> T:
    """A body in the form that a decoder takes.

    Raises:
        BadJsonError: It is no JSON, or not of that form; the message names the field.
    """
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise BadJsonError(_sentence(error, decoder.type)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadJsonError(f"the body is no JSON: {error}") from error
    except RecursionError as error:
        raise BadJsonError("the body is nested too deeply") from error


def _sentence(error: Exception, form: Any) -> str:
    # msgspec writes the path in backquotes at the end; that is what people look for.
    text = str(error)
    text = text[:1].lower() + text[1:]
    (form,) = get_args(form) or (form,)  # of a list, what it holds
    if "unknown field" not in text or " - at `$." in text or not is_struct_type(form):
        return text
    known = ", ".join(field.encode_name for field in fields(form))
    return f"{text}; its fields are {known}"
