"""Flow control: `GET /flow-state`, `GET /flow-state/detail`."""

from starlette.responses import Response

from duraton_api.errors import BadParameterError
from duraton_api.http.backend import Backend
from duraton_api.http.call import Call, json_answer
from duraton_api.http.reading import fresh, page_limit
from duraton_api.view.flow.reads import CONTROLS, ScopeFilter

_STATE_PARAMETERS = frozenset({"workflow", "consistency"})
_DETAIL_PARAMETERS = frozenset({"workflow", "app", "control", "limit", "cursor", "consistency"})


class FlowApi:
    """The calls about flow control.

    Args:
        backend: The node.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def state(self, call: Call) -> Response:
        """What waits in windows and buffers, and how many runs execute."""
        query = call.query(_STATE_PARAMETERS)
        await fresh(self._backend, query)
        view = self._backend.view
        return json_answer(await view.ask(view.reads.flow_state, query.get("workflow")))

    async def detail(self, call: Call) -> Response:
        """Scope by scope: who holds it, who waits for it and why, and when next."""
        query = call.query(_DETAIL_PARAMETERS)
        control = query.get("control")
        if control is not None and control not in CONTROLS:
            raise BadParameterError(f"control is one of {', '.join(CONTROLS)}, not {control!r}")
        wanted = ScopeFilter(
            workflow=query.get("workflow"),
            app=query.get("app"),
            control=control,
            limit=page_limit(query),
            cursor=query.get("cursor"),
        )
        await fresh(self._backend, query)
        view = self._backend.view
        return json_answer(await view.ask(view.reads.flow_detail, wanted, self._backend.now_ms()))
