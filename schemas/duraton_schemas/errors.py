"""Errors of the records, the codec and the values.

SchemaError
├── UnknownSchemaError       a record whose schema this program does not know
├── BadRecordError           bytes that are no record
├── KeyPathError             a key path that cannot be read (P4)
├── DurationError            a duration that cannot be read
├── OptionsError             a registration that cannot work (P4, P33)
├── ProjectError             settings of the project that cannot work
├── PricesError              a price table that cannot work
├── ValueFormError           a value that JSON cannot carry (P43)
└── ValueSizeError           a value above its limit (P58)

Policy is data on the class: `code` is stable and shown to people, `advice`
says what to do.
"""

from typing import ClassVar


class SchemaError(Exception):
    """Root of this component's errors."""

    code: ClassVar[str] = "schema"
    retriable: ClassVar[bool] = False
    advice: ClassVar[str] = "See docs/reference/errors.md."


class UnknownSchemaError(SchemaError):
    """A record was written under a schema id that this program does not have."""

    code = "schema-unknown"
    advice = "Upgrade this program to the version that wrote the record."


class BadRecordError(SchemaError):
    """Bytes that are not a record in Confluent framing, or not of the expected type."""

    code = "record-unreadable"
    advice = "Write Avro in Confluent framing, or JSON on duraton.events."


class KeyPathError(SchemaError):
    """A key path with an empty segment, or a leading or trailing dot."""

    code = "key-path-malformed"
    advice = "Write a dotted path such as user.id."


class DurationError(SchemaError):
    """Text or a number that is no duration."""

    code = "duration-malformed"
    advice = "Write whole milliseconds, a timedelta, or text such as 500ms, 30s, 5m, 2h, 1d."


class OptionsError(SchemaError):
    """Options of a workflow or an app that cannot work; nothing of them takes effect."""

    code = "options-refused"
    advice = "Correct the named option and register again."


class ProjectError(SchemaError):
    """Settings of the project that cannot work; those before them stay in force."""

    code = "project-refused"
    advice = "Set a ceiling of 1 or more runs, or 0 for no limit."


class PricesError(SchemaError):
    """A price table that cannot work; the one before it stays in force."""

    code = "prices-refused"
    advice = "Correct what the message names; `duraton prices get --json` shows the form."


class ValueFormError(SchemaError):
    """A value that has no exact JSON form."""

    code = "value-not-json"
    advice = "Return text, whole numbers up to 2^53, finite floats, booleans, None, lists or dicts."


class ValueSizeError(SchemaError):
    """A value whose stored form is above its limit."""

    code = "value-too-large"
    advice = "Store large data elsewhere and pass a reference to it."
