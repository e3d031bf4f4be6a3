"""The schemas in the Confluent Schema Registry's own JSON forms.

The API serves these, so that kcat, AKHQ and other Kafka tools decode our
topics with it as their registry. A subject is a record's full name, which those
tools call the record name strategy.
"""

import json
from functools import cache
from typing import Any, Literal

from duraton_schemas.catalog import SchemaVersion, schema_versions


def subjects() -> list[str]:
    """All subjects, as `GET /subjects` answers."""
    return sorted({version.subject for version in schema_versions()})


def versions(subject: str) -> list[int]:
    """A subject's versions, as `GET /subjects/{subject}/versions`; empty where there is none."""
    return sorted(v.version for v in schema_versions() if v.subject == subject)


def schema_by_id(number: int) -> dict[str, Any] | None:
    """As `GET /schemas/ids/{id}`: `{"schema": "..."}`, or None where there is no such id."""
    found = next((v for v in schema_versions() if v.id == number), None)
    return None if found is None else {"schema": _text(found.id)}


def schema_by_version(subject: str, version: int | Literal["latest"]) -> dict[str, Any] | None:
    """As `GET /subjects/{subject}/versions/{version}`.

    Args:
        subject: A record's full name.
        version: From 1, or `latest`.

    Returns:
        `subject`, `id`, `version` and `schema` (JSON text), or None where there is none.
    """
    known: list[SchemaVersion] = [v for v in schema_versions() if v.subject == subject]
    if version != "latest":
        known = [v for v in known if v.version == version]
    if not known:
        return None
    found = max(known, key=lambda v: v.version)
    return {
        "subject": found.subject,
        "id": found.id,
        "version": found.version,
        "schema": _text(found.id),
    }


@cache
def _text(number: int) -> str:
    schema = next(v.schema for v in schema_versions() if v.id == number)
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
