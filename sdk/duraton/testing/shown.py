"""What the API shows, with snake_case attributes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from duraton_engine.effects import EventAnswered

_MISSING = object()


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


class Shown(Mapping[str, Any]):
    """A JSON object as the API answers it; fields are also attributes.

    Args:
        plain: The object. `run.waiting_for` reads its `waitingFor`; a field that it
            lacks is None.
    """

    def __init__(self, plain: Mapping[str, Any]) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = self._plain.get(_camel(name), _MISSING)
        return show(None if value is _MISSING else value)

    def __getitem__(self, name: str) -> Any:
        return self._plain[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plain)

    def __len__(self) -> int:
        return len(self._plain)

    def __repr__(self) -> str:
        return f"Shown({dict(self._plain)!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return dict(self._plain) == dict(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it compares by its content


def show(value: Any) -> Any:
    """A JSON value with its objects as `Shown`."""
    if isinstance(value, Mapping):
        return Shown(value)
    if isinstance(value, list):
        return [show(item) for item in value]
    return value


@dataclass(frozen=True)
class Answer:
    """What one workflow made of an event, as `POST /events` answers it.

    Attributes:
        app: The app.
        workflow: The workflow.
        run_id: The run, or None.
        dropped: Whether the rate limit shed it.
        deduped: Whether its idempotency key was in use.
        skipped: Whether its singleton key was in use.
        joined: Whether it joined the run.
        refused: `T7103` where it was refused, or None.
        buffered: Whether a debounce window or a batch took it.
        blocked_by: The run in its way, or None.
    """

    app: str
    workflow: str
    run_id: str | None = None
    dropped: bool = False
    deduped: bool = False
    skipped: bool = False
    joined: bool = False
    refused: str | None = None
    buffered: bool = False
    blocked_by: str | None = None

    @classmethod
    def of(cls, effect: EventAnswered) -> "Answer":
        """The answer that an effect is."""
        return cls(
            app=effect.app,
            workflow=effect.workflow,
            run_id=effect.run,
            dropped=effect.outcome == "dropped",
            deduped=effect.outcome == "deduped",
            skipped=effect.outcome == "skipped",
            joined=effect.outcome == "joined",
            refused=effect.error.code if effect.outcome == "refused" and effect.error else None,
            buffered=effect.outcome == "buffered",
            blocked_by=effect.blocker,
        )
