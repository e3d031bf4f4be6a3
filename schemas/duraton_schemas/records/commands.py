"""What the API asks of a slot. Each is a record of `duraton.commands` at its target's slot."""

from duraton_schemas.records.common import Caller, Record


class Command(Record, kw_only=True):
    """Root of the commands.

    Attributes:
        id: The request's id, by which its answer is found.
        caller: Who asks.
    """

    id: str
    caller: Caller


class RegisterApp(Command, kw_only=True):
    """Register an app's workflows, all or nothing; goes to the project slot.

    Attributes:
        app: The app's name.
        body: `AppOptions` as JSON text.
    """

    app: str
    body: str


class SetPrices(Command, kw_only=True):
    """Put a price table in the place of the one in force; goes to the project slot.

    Attributes:
        body: `PriceTable` as JSON text.
    """

    body: str


class CancelRun(Command, kw_only=True):
    """End a run as cancelled."""

    run: str
    reason: str | None = None


class PauseRun(Command, kw_only=True):
    """Let a run begin nothing until it is resumed."""

    run: str


class ResumeRun(Command, kw_only=True):
    """Take every reason to pause from a run (P31)."""

    run: str


class SetProject(Command, kw_only=True):
    """Change what holds for the whole project; goes to the project slot.

    Attributes:
        ceiling: How many runs execute at once in the whole project; 0 for no limit.
    """

    ceiling: int
