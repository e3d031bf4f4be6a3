"""Durable workflows: `from duraton import define_workflow`."""

from duraton.app import App
from duraton.client import Client
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
from duraton.connection import connect
from duraton.context import Event, RunError, RunInfo, StepContext
from duraton.errors import (
    BudgetError,
    ConnectionRefusedByEngineError,
    DuratonError,
    NonRetriableError,
    RetryAfterError,
    SendError,
)
from duraton.serving import serve
from duraton.target import load_target
from duraton.worker import run_worker
from duraton.workflow import WorkflowDefinition, define_workflow, workflow
from duraton_schemas.errors import OptionsError

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
