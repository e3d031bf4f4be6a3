"""An app: a runner's set of workflows, registered under one name."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from duraton.workflow import WorkflowDefinition
from duraton_schemas.errors import OptionsError
from duraton_schemas.options import AppOptions


class App:
    """A set of workflows under one name.

    Args:
        name: The app's name, which stands for ever in its runs' ids.
        workflows: What `define_workflow` made.

    Raises:
        OptionsError: The name cannot be used, two workflows share a name, or
            something else is among them.
    """

    def __init__(self, name: str, workflows: Sequence[WorkflowDefinition] = ()) -> None:
        self.name = name
        for workflow in workflows:
            if not isinstance(workflow, WorkflowDefinition):
                raise OptionsError(
                    f"{name}: {workflow!r} is no workflow; define it with define_workflow(...)"
                )
        self.options().check()  # the name alone
        self.workflows = {workflow.name: workflow for workflow in workflows}
        if len(self.workflows) < len(workflows):
            AppOptions(name, tuple(w.options for w in workflows)).check()
        for workflow in workflows:
            _homes.setdefault(workflow, name)

    def options(self, url: str | None = None) -> AppOptions:
        """What is registered.

        Args:
            url: Where the engine POSTs invocations (serve), or None (connect).
        """
        known = getattr(self, "workflows", {})
        return AppOptions(self.name, tuple(w.options for w in known.values()), url)

    def __repr__(self) -> str:
        return f"App({self.name!r}, {len(self.workflows)} workflows)"


_homes: "WeakKeyDictionary[WorkflowDefinition, str]" = WeakKeyDictionary()


def app_of(workflow: WorkflowDefinition) -> str:
    """The name of the first app that has a workflow; empty where none has."""
    return _homes.get(workflow, "")
