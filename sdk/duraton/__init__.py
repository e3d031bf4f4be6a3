"""Durable workflows: `from duraton import define_workflow`."""

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
    DuratonError,
    NonRetriableError,
    RetryAfterError,
)
from duraton.workflow import WorkflowDefinition, define_workflow, workflow
from duraton_schemas.errors import OptionsError

__all__ = [
    "App",
    "BatchConfig",
    "BudgetConfig",
    "BudgetError",
    "CapConfig",
    "ConcurrencyConfig",
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
    "SingletonConfig",
    "StepContext",
    "ThrottleConfig",
    "TogetherConfig",
    "TokenThrottleConfig",
    "WorkflowDefinition",
    "define_workflow",
    "workflow",
]
