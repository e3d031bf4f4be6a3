"""Errors as RFC 9457 problem documents with a stable `code`."""

import logging
import uuid
from http import HTTPStatus

import msgspec

from duraton_api.errors import ApiError, BusyError
from duraton_schemas.errors import SchemaError, ValueSizeError
from duraton_streams.errors import OverloadedError, StreamError

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem document.

    Attributes:
        type: A URN made of the code.
        title: What kind of problem it is; the same text for the same code.
        status: The HTTP status.
        detail: What it is this time.
        code: Stable, for programs.
        instance: This occurrence; the engine's log has it where the engine is at fault.
        advice: What to do.
        error_code: The Schema Registry's number, on its calls.
        message: As `detail`, in the Schema Registry's word, on its calls.
        retry_after_s: When to come again; it is also the Retry-After header.
    """

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str
    advice: str
    error_code: int | None = None
    message: str | None = None
    retry_after_s: int | None = None

    def body(self) -> bytes:
        """The document's bytes."""
        return msgspec.json.encode(self)

    def headers(self) -> dict[str, str]:
        """Headers that go with it."""
        found: dict[str, str] = {}
        if self.retry_after_s is not None:
            found["retry-after"] = str(self.retry_after_s)
        if self.status == HTTPStatus.UNAUTHORIZED:
            found["www-authenticate"] = 'Bearer realm="duraton"'
        return found


def problem_of(error: Exception) -> Problem:
    """The document of an error. What is no error of ours is logged, and says nothing inside out."""
    instance = f"urn:uuid:{uuid.uuid4()}"
    if isinstance(error, ApiError):
        retry = error.retry_after_s if isinstance(error, BusyError) else None
        if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
            retry = 1
        return _problem(
            error.code, error.title, error.status, str(error), instance, error.advice, retry
        )
    if isinstance(error, SchemaError):
        large = isinstance(error, ValueSizeError)
        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if large else HTTPStatus.BAD_REQUEST
        title = "The request states what cannot work"
        return _problem(error.code, title, status, str(error), instance, error.advice)
    if isinstance(error, OverloadedError):
        title, retry = BusyError.title, error.retry_after_s
        return _problem(error.code, title, 429, str(error), instance, error.advice, retry)
    if isinstance(error, StreamError):
        title = "The engine cannot do this now"
        return _problem(error.code, title, 503, str(error), instance, error.advice, 1)
    logger.error("a request failed (%s)", instance, exc_info=error)
    detail = "An error inside the engine; its log has it under the instance shown here."
    return _problem(ApiError.code, ApiError.title, 500, detail, instance, ApiError.advice)


def http_problem(status: int, detail: str) -> Problem:
    """The document of a bare HTTP status, for paths that do not exist and the like."""
    phrase = HTTPStatus(status).phrase
    code = phrase.lower().replace(" ", "-")
    advice = "See docs/reference/http-api.md for the calls that there are."
    return _problem(code, phrase, status, detail, f"urn:uuid:{uuid.uuid4()}", advice)


def _problem(
    code: str,
    title: str,
    status: int,
    detail: str,
    instance: str,
    advice: str,
    retry: int | None = None,
) -> Problem:
    return Problem(
        type=f"urn:duraton:problem:{code}",
        title=title,
        status=int(status),
        detail=detail or title,
        code=code,
        instance=instance,
        advice=advice,
        retry_after_s=retry,
    )
