"""Health, readiness, metrics, and the schemas in the Schema Registry's form."""

from typing import Literal

from starlette.responses import Response

from duraton_api.errors import QueryTooSlowError, SchemaMissingError, ViewFailedError
from duraton_api.http.backend import Backend
from duraton_api.http.call import Call, json_answer
from duraton_api.http.metrics import MEDIA_TYPE
from duraton_schemas import registry

SCHEMA_ID_DIGITS_MAX = 10


class SystemApi:
    """The calls about the node itself.

    Args:
        backend: The node.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def health(self, call: Call) -> Response:  # noqa: ARG002 - every handler takes the call
        """Whether the process lives."""
        return json_answer({"status": "alive"})

    async def ready(self, call: Call) -> Response:  # noqa: ARG002 - as above
        """Whether the node may be given work; 503 while it may not."""
        found = self._backend.readiness()
        return json_answer(found, 200 if found.ready else 503)

    async def metrics(self, call: Call) -> Response:  # noqa: ARG002 - as above
        """Counters in Prometheus' text form; without what waits where the view cannot be read."""
        view, metrics = self._backend.view, self._backend.metrics
        try:
            metrics.flow(await view.ask(view.reads.flow_counts))
        except (ViewFailedError, QueryTooSlowError):
            metrics.flow(())
        return Response(metrics.text(), media_type=MEDIA_TYPE)

    async def subjects(self, call: Call) -> Response:  # noqa: ARG002 - as above
        """All subjects."""
        return json_answer(registry.subjects())

    async def versions(self, call: Call) -> Response:
        """A subject's versions."""
        subject = call.path("subject")
        found = registry.versions(subject)
        if not found:
            raise SchemaMissingError(f"no subject is named {subject!r}")
        return json_answer(found)

    async def version(self, call: Call) -> Response:
        """One version of a subject's schema."""
        subject, text = call.path("subject"), call.path("version")
        wanted: int | Literal["latest"] = "latest"
        if text != "latest":
            wanted = _number(text)
        found = registry.schema_by_version(subject, wanted)
        if found is None:
            raise SchemaMissingError(f"{subject!r} has no version {text!r}")
        return json_answer(found)

    async def schema(self, call: Call) -> Response:
        """A schema by the id in a record's framing."""
        text = call.path("id")
        found = registry.schema_by_id(_number(text))
        if found is None:
            raise SchemaMissingError(f"no schema has the id {text!r}")
        return json_answer(found)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > SCHEMA_ID_DIGITS_MAX:
        raise SchemaMissingError(f"{text!r} is no number of a schema")
    return int(text)
