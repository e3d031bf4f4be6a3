"""Calls of an OpenAI-compatible endpoint, for `ctx.step.ai.infer`."""

import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any

import httpx
import msgspec

from duraton.completion import Completion
from duraton.environment import MODELS_URL_DEFAULT, models_key, models_url
from duraton.errors import InferenceError, InferenceRefusedError, RetryAfterError, StepUseError
from duraton.runtime.tally import tally_var
from duraton.usage import usage_of
from duraton_schemas import values
from duraton_schemas.errors import ValueFormError, ValueSizeError
from duraton_schemas.wire.frames import FrameUsage

CONNECT_S = 10.0
REQUEST_BYTES_MAX = 32 << 20
ANSWER_BYTES_MAX = 8 << 20
"""One answer, or one piece of a streamed one."""
STREAM_BYTES_MAX = 256 << 20
"""A streamed answer as it is sent; each word comes in some hundred bytes of JSON."""
REFUSAL_BYTES_MAX = 64 << 10
REFUSAL_LENGTH_MAX = 500
_TRY_AGAIN = frozenset((HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY))
"""Refusals (4xx) that ask for the same once more."""
_DONE = b"[DONE]"


@dataclass(frozen=True)
class Request:
    """What is asked of the endpoint.

    Attributes:
        body: The request's fields.
        stream: Whether the answer comes piece by piece.
        on_text: Told each piece of text, or None.
        silence_s: How long the endpoint may be silent.
    """

    body: Mapping[str, Any]
    stream: bool
    on_text: Callable[[str], object] | None
    silence_s: float


async def infer(request: Request, base_url: str | None, api_key: str | None) -> Any:
    """The endpoint's answer, a chat completion.

    Where the endpoint began to answer and the answer is not whole, what it used is
    metered as far as it said so.

    Raises:
        InferenceError: It was not reached, or failed.
        InferenceRefusedError: It refuses the call.
        RetryAfterError: It says when to come again.
        StepUseError: The call cannot be made.
    """
    url = _url(base_url)
    headers = {"content-type": "application/json"}
    key = models_key(api_key)
    if key is not None:
        if not (key.isascii() and key.isprintable()):
            raise StepUseError("the API key holds characters that no header takes")
        headers["authorization"] = f"Bearer {key}"
    elif url == MODELS_URL_DEFAULT:
        raise StepUseError("OpenAI needs a key: set OPENAI_API_KEY, or pass api_key=...")
    content = _content(request)
    timeout = httpx.Timeout(request.silence_s, connect=min(CONNECT_S, request.silence_s))
    verify = _tls() if url.startswith("https:") else False
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, verify=verify) as client,
            client.stream(
                "POST", f"{url}/chat/completions", content=content, headers=headers
            ) as response,
        ):
            if response.status_code != HTTPStatus.OK:
                raise await _refusal(response)
            return await (_streamed if request.stream else _whole)(request, response)
    except httpx.InvalidURL as error:
        raise StepUseError(f"{url!r} is no address: {error}") from error
    except httpx.HTTPError as error:
        said = str(error) or "no answer in time"
        where = _place(httpx.URL(url))
        raise InferenceError(f"{where} failed: {type(error).__name__}: {said}") from error


def _place(url: httpx.URL) -> str:
    """An address without the name and the password that may stand in it."""
    return f"{url.scheme}://{url.netloc.decode()}{url.path}"


def _url(base_url: str | None) -> str:
    url = models_url(base_url)
    if not url.startswith(("http://", "https://")):
        raise StepUseError("base_url must begin with http:// or https://, as in http://host/v1")
    return url


def _content(request: Request) -> bytes:
    body = dict(request.body)
    if request.stream:
        asked = body.get("stream_options")
        more = asked if isinstance(asked, Mapping) else {}
        body |= {"stream": True, "stream_options": {**more, "include_usage": True}}
    try:
        return values.dump(body, limit=REQUEST_BYTES_MAX).encode()
    except (ValueFormError, ValueSizeError) as error:
        raise StepUseError(f"the request cannot be written: {error}") from error


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates takes tens of milliseconds, so it is done once."""
    return httpx.create_ssl_context()


async def _whole(request: Request, response: httpx.Response) -> Any:
    answer: Any = None
    try:
        answer = _json(await _read(response, ANSWER_BYTES_MAX), response)
        _check(isinstance(answer, dict) and isinstance(answer.get("choices"), list), response)
    except BaseException:
        _meter_part(request, answer)
        raise
    return answer


async def _streamed(request: Request, response: httpx.Response) -> Any:
    completion = Completion(request.on_text)
    done = False
    try:
        async with aclosing(_pieces(response)) as pieces:
            async for data in pieces:
                if data == _DONE:
                    done = True
                    break
                completion.add(_json(data, response))
        _check(completion.finished or (done and completion.answer["choices"]), response)
    except BaseException:
        _meter_part(request, completion.answer)
        raise
    return completion.answer


def _check(whole: object, response: httpx.Response) -> None:
    if not whole:
        raise InferenceError(f"what {_place(response.url)} answered is no whole chat completion")


def _meter_part(request: Request, answer: Any) -> None:
    """An answer that is not whole was paid for: what it says it used, or that nobody knows."""
    tally = tally_var.get()
    model = str(request.body["model"])
    if tally is not None:
        known = isinstance(answer, dict)
        tally.add(usage_of(answer, None, model) if known else FrameUsage(unknown=True, model=model))


async def _read(response: httpx.Response, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > limit:
            raise InferenceRefusedError(f"the answer is above the limit of {limit} bytes")
        parts.append(part)
    return b"".join(parts)


async def _pieces(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The data of the server-sent events of a response, one line each."""
    rest, size = b"", 0
    async for part in response.aiter_bytes():
        size += len(part)
        *lines, rest = (rest + part).split(b"\n")
        if size > STREAM_BYTES_MAX or len(rest) > ANSWER_BYTES_MAX:
            raise InferenceRefusedError("the answer is longer than a stream may be")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()
    if rest.startswith(b"data:"):
        yield rest[5:].strip()


def _json(raw: bytes, response: httpx.Response) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InferenceError(f"{_place(response.url)} gave no JSON: {error}") from error


async def _refusal(response: httpx.Response) -> Exception:
    """The error of an answer that is not 200."""
    status = response.status_code
    said = f"{_place(response.url)} answered {status}{await _message(response)}"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        wait = response.headers.get("retry-after")
        return InferenceError(said) if wait is None else RetryAfterError(said, wait)
    if status in _TRY_AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return InferenceError(said)
    return InferenceRefusedError(said)


async def _message(response: httpx.Response) -> str:
    """What the endpoint says about it, for people; empty where it says nothing."""
    raw = b""
    async for part in response.aiter_bytes():
        raw += part
        if len(raw) > REFUSAL_BYTES_MAX:
            break
    text = raw[:REFUSAL_BYTES_MAX].decode(errors="replace").strip()
    try:
        found = msgspec.json.decode(raw)["error"]
        text = str(found["message"] if isinstance(found, dict) else found)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        pass  # what it said is shown as it came
    return f": {text[:REFUSAL_LENGTH_MAX]}" if text else ""
