"""A workflow as decisions see it: its options, its controls, where its runs are counted."""

from typing import Any

from duraton_engine.state.lanes import scope_of
from duraton_schemas.canonical import canonical_text, read_path
from duraton_schemas.controls import Controls, Together
from duraton_schemas.options import WorkflowOptions
from duraton_schemas.records.common import Scopes
from duraton_schemas.records.public import Event
from duraton_schemas.values import load


class Flow:
    """One registered workflow.

    Args:
        app: Its app.
        options: As it is registered.
        together: What holds where a workflow states no `together` (P22), or None.

    Attributes:
        controls: Its controls, understood.
        counted: Whether its runs are counted anywhere, so that they have scopes.
        takes: Whether anything but being counted stands between an event and a run.
        budgeted: Whether its spend may hold it.
        metered: Whether what its runs spend changes anything: a budget, a tokenThrottle.
        keys: By what its runs are counted; where it changes they are counted anew.
    """

    __slots__ = (
        "_paths",
        "app",
        "budgeted",
        "controls",
        "counted",
        "keys",
        "metered",
        "options",
        "takes",
    )

    def __init__(self, app: str, options: WorkflowOptions, together: Together | None) -> None:
        controls = options.read_controls() if options.controls() else _NONE
        if together is not None and controls.together is None:
            controls = _with_together(controls, together)
        self.app = app
        self.options = options
        self.controls = controls
        self.budgeted = controls.budget is not None
        self.metered = self.budgeted or controls.token_throttle is not None
        self.keys = _keys(controls)
        self.counted = any(key is not None for key in self.keys)
        self.takes = any(
            control is not None
            for control in (
                controls.idempotency,
                controls.rate_limit,
                controls.debounce,
                controls.batch,
                controls.singleton,
                controls.together,
            )
        )
        self._paths: dict[str, tuple[str, ...]] = {}

    @property
    def name(self) -> str:
        """The workflow's name."""
        return self.options.name

    @property
    def shift_ms(self) -> int:
        """How much earlier its runs queue (P14)."""
        priority = self.controls.priority
        return priority.shift_ms if priority is not None else 0

    def scope(self, key: str | None, data: Any) -> str:
        """The scope of an event's data by a key's path; the empty one without (P2)."""
        if key is None:
            return ""
        path = self._paths.get(key)
        if path is None:
            path = self._paths[key] = tuple(key.split("."))
        return scope_of(key, read_path(data, path))

    def scopes(self, event: Event | None) -> Scopes | None:
        """Where a run of an event is counted; None where it is nowhere."""
        if not self.counted:
            return None
        controls = self.controls
        data = load(event.data) if event is not None else {}
        concurrency, throttle = controls.concurrency, controls.throttle
        tokens, singleton = controls.token_throttle, controls.singleton
        together = None
        if controls.together is not None:
            together = self._together(event, data)
        return Scopes(
            concurrency=self.scope(concurrency.key, data) if concurrency else None,
            throttle=self.scope(throttle.key, data) if throttle else None,
            token_throttle=self.scope(tokens.key, data) if tokens else None,
            together=together,
            singleton=self.scope(singleton.key, data) if singleton else None,
        )

    def _together(self, event: Event | None, data: Any) -> str:
        key = self.controls.key
        if key is not None:
            return self.scope(key, data)
        subject = event.subject if event is not None else None
        # Where the flow states no key, what the event is about is its row (P52).
        return scope_of("", canonical_text(subject) if subject is not None else None)


_NONE = Controls()


def _with_together(controls: Controls, together: Together) -> Controls:
    fields = {name: getattr(controls, name) for name in controls.__struct_fields__}
    return Controls(**{**fields, "together": together})


def _keys(controls: Controls) -> tuple[str | None, ...]:
    """A text for each control by which runs are counted: its key's path, or None without it."""

    def key(control: Any) -> str | None:
        return None if control is None else control.key or ""

    together = None if controls.together is None else controls.key or ""
    return (
        key(controls.concurrency),
        key(controls.throttle),
        key(controls.token_throttle),
        key(controls.singleton),
        together,
    )
