"""Durable workflows: `from duraton import define_workflow`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from duraton.app import App
from duraton.config import (
    BatchConfig,
    BudgetConfig,
    CapConfig,
    ConcurrencyConfig,
    CronConfig,
    DebounceConfig,
    IdempotencyConfig,
    PriorityConfig,
    RateLimitConfig,
    RetryConfig,
    SingletonConfig,
    ThrottleConfig,
    TogetherConfig,
    TokenThrottleConfig,
)
from duraton.context import Event, RunError, RunInfo, StepContext
from duraton.errors import (
    BudgetError,
    ConnectionRefusedByEngineError,
    DuratonError,
    NonRetriableError,
    RetryAfterError,
    SendError,
)
from duraton.workflow import WorkflowDefinition, define_workflow, workflow
from duraton_schemas.errors import OptionsError

if TYPE_CHECKING:
    from duraton.client import Client
    from duraton.connection import connect
    from duraton.serving import serve
    from duraton.target import load_target
    from duraton.worker import run_worker

__all__ = [
    "App",
    "BatchConfig",
    "BudgetConfig",
    "BudgetError",
    "CapConfig",
    "Client",
    "ConcurrencyConfig",
    "ConnectionRefusedByEngineError",
    "CronConfig",
    "DebounceConfig",
    "DuratonError",
    "Event",
    "IdempotencyConfig",
    "NonRetriableError",
    "OptionsError",
    "PriorityConfig",
    "RateLimitConfig",
    "RetryAfterError",
    "RetryConfig",
    "RunError",
    "RunInfo",
    "SendError",
    "SingletonConfig",
    "StepContext",
    "ThrottleConfig",
    "TogetherConfig",
    "TokenThrottleConfig",
    "WorkflowDefinition",
    "connect",
    "define_workflow",
    "load_target",
    "run_worker",
    "serve",
    "workflow",
]

_LATER = {
    "Client": "duraton.client",
    "connect": "duraton.connection",
    "load_target": "duraton.target",
    "run_worker": "duraton.worker",
    "serve": "duraton.serving",
}
"""What brings HTTP and WebSocket clients along is imported once it is used: a module of
workflows needs none of it, and served functions start cold."""


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'duraton' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value
