"""What a runner registers: apps, workflows and their options in wire form.

Whole numbers are milliseconds. A registration is all or nothing: one option
that cannot work refuses the whole app and leaves the old version in force.
"""

import re
from typing import Any, Literal

import msgspec

from duraton_schemas.controls import NAMES as CONTROLS
from duraton_schemas.controls import Controls, check_groups, read_controls
from duraton_schemas.errors import OptionsError, ProjectError, ValueFormError
from duraton_schemas.values import check_depth

APP_BYTES_MAX = 4 << 20
"""An app's registration as JSON; it stands whole in several records."""
WORKFLOWS_MAX = 1_000
CEILING_MAX = 1_000_000_000
TRIGGERS_MAX = 100
NAME_LENGTH_MAX = 200
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*")


class Retry(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How failed steps are tried again (retries seed, P33, P34).

    Attributes:
        max_attempts: Executions in all, the first included; at least 1.
        backoff: How the delay grows: fixed, linear or exponential.
        initial_delay_ms: The first delay and the unit the shape multiplies.
        max_delay_ms: The most that a computed delay may be; 0 retries at once.
    """

    max_attempts: int = 1
    backoff: Literal["fixed", "linear", "exponential"] = "fixed"
    initial_delay_ms: int = 1_000
    max_delay_ms: int = 30_000

    def check(self, where: str) -> None:
        """Refuse values that make no policy.

        Raises:
            OptionsError: `maxAttempts` is below 1 or a delay below 0.
        """
        if self.max_attempts < 1:
            raise OptionsError(f"{where}: maxAttempts must be a whole number of at least 1")
        if self.initial_delay_ms < 0 or self.max_delay_ms < 0:
            raise OptionsError(f"{where}: delays must be whole milliseconds of at least 0")


class Cron(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A schedule: five fields and a time zone (P55)."""

    expr: str
    tz: str = "UTC"


class WorkflowOptions(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """One workflow as it is registered.

    Attributes:
        name: Its name; with no triggers and no cron also the event that starts it.
        triggers: Event names; a trailing `*` matches a prefix.
        cron: Its schedule, or None.
        retry: The policy of steps that state none of their own.
        on_failure: Whether it has an onFailure handler.
    """

    name: str
    triggers: tuple[str, ...] = ()
    cron: Cron | None = None
    retry: Retry = Retry()
    on_failure: bool = False
    concurrency: dict[str, Any] | None = None
    throttle: dict[str, Any] | None = None
    rate_limit: dict[str, Any] | None = None
    debounce: dict[str, Any] | None = None
    batch: dict[str, Any] | None = None
    priority: dict[str, Any] | None = None
    singleton: dict[str, Any] | None = None
    idempotency: dict[str, Any] | None = None
    cap: dict[str, Any] | None = None
    budget: dict[str, Any] | None = None
    token_throttle: dict[str, Any] | None = None
    together: dict[str, Any] | None = None
    key: str | None = None

    def event_names(self) -> tuple[str, ...]:
        """The names and prefixes that start it."""
        if self.triggers:
            return self.triggers
        return () if self.cron else (self.name,)

    def controls(self) -> dict[str, Any]:
        """The flow control fields that are set, by wire name."""
        plain = msgspec.to_builtins(self)
        return {name: plain[name] for name in CONTROLS if plain.get(name) is not None}

    def read_controls(self) -> Controls:
        """The flow control fields, understood.

        Raises:
            OptionsError: One of them cannot work.
        """
        return read_controls(self.name, self.controls())

    def check(self) -> None:
        """Refuse what cannot work, naming the field.

        Raises:
            OptionsError: As its message says.
        """
        _check_name("workflow", self.name)
        if len(self.triggers) > TRIGGERS_MAX:
            raise OptionsError(f"{self.name}: more than {TRIGGERS_MAX} triggers")
        for trigger in self.triggers:
            if not trigger or "*" in trigger[:-1] or len(trigger) > NAME_LENGTH_MAX:
                raise OptionsError(f"{self.name}: {trigger!r} is no event name or prefix*")
        self.retry.check(f"{self.name}.retry")
        self.read_controls()


class ProjectOptions(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """What holds for the whole project.

    Attributes:
        ceiling: How many runs execute at once, whatever their workflow; 0 for no limit.
    """

    ceiling: int = 0

    def check(self) -> None:
        """Refuse what cannot work.

        Raises:
            ProjectError: The ceiling is below 0 or above its limit.
        """
        if not 0 <= self.ceiling <= CEILING_MAX:
            raise ProjectError(
                f"the project's ceiling must be a whole number from 0 (no limit) to {CEILING_MAX}, "
                f"not {self.ceiling}"
            )


class AppOptions(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A runner's set of workflows under one name.

    Attributes:
        name: The app's name.
        workflows: What it offers.
        url: Where the engine POSTs invocations (serve), or None (connect).
    """

    name: str
    workflows: tuple[WorkflowOptions, ...] = ()
    url: str | None = None

    def check(self) -> None:
        """Refuse what cannot work.

        Raises:
            OptionsError: As its message says.
        """
        _check_name("app", self.name)
        if len(self.workflows) > WORKFLOWS_MAX:
            raise OptionsError(f"{self.name}: more than {WORKFLOWS_MAX} workflows")
        names: set[str] = set()
        for workflow in self.workflows:
            workflow.check()
            if workflow.name in names:
                raise OptionsError(f"{self.name}: two workflows are named {workflow.name!r}")
            names.add(workflow.name)
        check_groups(self.name, {each.name: each.read_controls() for each in self.workflows})
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise OptionsError(f"{self.name}: url must begin with http:// or https://")


def read_app(raw: bytes | str, name: str | None = None) -> AppOptions:
    """Read and check an app's registration from its JSON text.

    Args:
        raw: The JSON object.
        name: The name it must have, where the caller knows it.

    Raises:
        OptionsError: It is no such object, or states what cannot work.
    """
    if len(raw) > APP_BYTES_MAX:
        raise OptionsError(
            f"the registration is {len(raw)} bytes, the limit is {APP_BYTES_MAX}; make several apps"
        )
    try:
        app = msgspec.json.decode(raw, type=AppOptions)
        check_depth(msgspec.json.decode(raw), raw)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueFormError) as error:
        raise OptionsError(f"the registration cannot be read: {error}") from error
    except RecursionError as error:
        raise OptionsError("the registration is nested too deeply") from error
    if name is not None and app.name != name:
        raise OptionsError(f"the registration is of app {app.name!r}, not {name!r}")
    app.check()
    return app


def write_app(app: AppOptions) -> str:
    """The JSON text of a registration; equal registrations give equal texts."""
    return msgspec.json.encode(app, order="deterministic").decode()


def _check_name(kind: str, name: str) -> None:
    if len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        raise OptionsError(
            f"{name!r} is no name for a {kind}: use letters, digits and . _ - : / "
            f"(at most {NAME_LENGTH_MAX})"
        )
