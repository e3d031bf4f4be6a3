"""Facts of the registry and of the shapes by which runs wait."""

from duraton_schemas.records.common import Fact


class RegistryChanged(Fact, kw_only=True):
    """The project slot gave the registry a new version; it also stands on `duraton.registry`.

    Attributes:
        version: The registry's new version.
        kind: As in `RegistryEntry`.
        key: As in `RegistryEntry`.
        body: As in `RegistryEntry`.
        gates: As in `RegistryEntry`.
        due: For a wait shape, when it is looked at whether anybody waits by it; or None.
    """

    version: int
    kind: str
    key: str
    body: str | None
    gates: int = 0
    due: int | None = None


class RegistrationApplied(Fact, kw_only=True):
    """This partition decides by that version of the registry from here on."""

    version: int
    kind: str
    key: str
    body: str | None
    gates: int = 0


class PartitionReported(Fact, kw_only=True):
    """The project slot knows that a partition has applied the registry up to a version."""

    reporter: int
    version: int


class ShapeRequested(Fact, kw_only=True):
    """The project slot keeps who waits for a shape to be ready (DESIGN 4, waits)."""

    name: str
    path: str
    run: str
    step: str
    n: int


class ShapeAnswered(Fact, kw_only=True):
    """The project slot has answered all who asked for a shape."""

    name: str
    path: str


class ShapeIdle(Fact, kw_only=True):
    """The project slot knows that nobody waits by a retiring shape in a partition's slots.

    Attributes:
        key: The shape's key in the registry.
        reporter: The partition.
        version: The registry version of the retiring.
    """

    key: str
    reporter: int
    version: int
