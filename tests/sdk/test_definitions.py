import json
from datetime import timedelta

import pytest

import duraton
from duraton import (
    App,
    BatchConfig,
    BudgetConfig,
    CapConfig,
    ConcurrencyConfig,
    CronConfig,
    DebounceConfig,
    IdempotencyConfig,
    OptionsError,
    PriorityConfig,
    RateLimitConfig,
    RetryConfig,
    SingletonConfig,
    ThrottleConfig,
    TogetherConfig,
    TokenThrottleConfig,
    define_workflow,
    workflow,
)
from duraton_schemas.options import read_app, write_app


async def handle(ctx):
    return None


def wire(**options):
    app = App("shop", [define_workflow("work", handle, **options)])
    text = write_app(app.options())
    assert read_app(text) == app.options()
    return json.loads(text)["workflows"][0]


def test_every_option_has_its_wire_form():
    assert wire(
        concurrency=ConcurrencyConfig(limit=5, key="accountId"),
        throttle=ThrottleConfig(100, "1m", key="customer"),
        rate_limit=RateLimitConfig(1000, timedelta(minutes=1)),
        debounce=DebounceConfig("5s", key="documentId"),
        priority=PriorityConfig(timedelta(seconds=-60)),
        singleton=SingletonConfig("accountId"),
        idempotency=IdempotencyConfig("orderId", "1d"),
        cap=CapConfig(max_cost=0.25, max_tokens=40_000),
        budget=BudgetConfig(max_tokens=6_000, window_ms="1h", warn_at_pct=80),
        token_throttle=TokenThrottleConfig(1_000, 60_000, "userId"),
        together=TogetherConfig(max=5, group="perTeam", then="join"),
        key="order",
        retry=RetryConfig(5, "exponential", "2s"),
        on_failure=handle,
        triggers=["order.created", "order.*"],
        cron=CronConfig("0 9 * * MON-FRI", "Europe/Berlin"),
    ) == {
        "name": "work",
        "concurrency": {"limit": 5, "key": "accountId"},
        "throttle": {"limit": 100, "perMs": 60_000, "key": "customer"},
        "rateLimit": {"limit": 1000, "perMs": 60_000},
        "debounce": {"periodMs": 5_000, "key": "documentId"},
        "priority": {"shiftMs": -60_000},
        "singleton": {"key": "accountId", "mode": "skip"},
        "idempotency": {"key": "orderId", "periodMs": 86_400_000},
        "cap": {"maxCost": 0.25, "maxTokens": 40_000},
        "budget": {"maxTokens": 6_000, "windowMs": 3_600_000, "warnAtPct": 80},
        "tokenThrottle": {"tokens": 1_000, "perMs": 60_000, "key": "userId"},
        "together": {"max": 5, "group": "perTeam", "then": "join"},
        "key": "order",
        "retry": {
            "maxAttempts": 5,
            "backoff": "exponential",
            "initialDelayMs": 2_000,
            "maxDelayMs": 30_000,
        },
        "onFailure": True,
        "triggers": ["order.created", "order.*"],
        "cron": {"expr": "0 9 * * MON-FRI", "tz": "Europe/Berlin"},
    }


def test_extra_passes_the_wire_form():
    batch = {"maxSize": 100, "timeoutMs": 5000, "key": "index"}
    assert wire(extra={"batch": batch})["batch"] == batch
    assert wire(batch=BatchConfig(100, 5000, "index"))["batch"] == batch
    assert wire(cron="* * * * *")["cron"] == wire(extra={"cron": "* * * * *"})["cron"]


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": ConcurrencyConfig(limit=0)},
        {"concurrency": ConcurrencyConfig(limit=5, key="a..b")},
        {"concurrency": ThrottleConfig(1, 1)},
        {"concurrency": 5},
        {"throttle": ThrottleConfig(1, "soon")},
        {"throttle": ThrottleConfig(1, 0)},
        {"debounce": DebounceConfig(5), "batch": BatchConfig(5, 5)},
        {"retry": RetryConfig(0)},
        {"retry": RetryConfig(-1)},
        {"retry": RetryConfig(1.5)},
        {"retry": RetryConfig(float("nan"))},
        {"retry": RetryConfig(initial_delay_ms=-1)},
        {"retry": RetryConfig(backoff="expo")},
        {"extra": {"nonsense": {}}},
        {"extra": {"batch": {"maxSize": -1, "timeoutMs": 5}}},
        {"batch": BatchConfig(1, 1), "extra": {"batch": {"maxSize": 1, "timeoutMs": 1}}},
        {"triggers": "order.created"},
        {"triggers": ["*x"]},
        {"nonsense": 1},
        {"on_failure": lambda ctx: None},
    ],
    ids=repr,
)
def test_what_cannot_work_is_refused_where_it_is_defined(options):
    with pytest.raises(OptionsError, match="work"):
        define_workflow("work", handle, **options)


def test_a_delay_of_zero_is_a_policy():
    assert wire(retry=RetryConfig(3, max_delay_ms=0))["retry"]["maxDelayMs"] == 0


def test_handlers_must_be_coroutine_functions():
    with pytest.raises(OptionsError, match="async def"):
        define_workflow("work", lambda ctx: None)


def test_the_decorator_defines_the_same():
    @workflow("order.created", retry=RetryConfig(3))
    async def ship(ctx):
        return None

    @workflow()
    async def pack(ctx):
        return None

    assert (ship.name, ship.options.retry.max_attempts) == ("order.created", 3)
    assert pack.name == "pack"


def test_an_app_takes_workflows_of_different_names():
    one = define_workflow("work", handle)
    with pytest.raises(OptionsError, match="two workflows"):
        App("shop", [one, define_workflow("work", handle)])
    with pytest.raises(OptionsError, match="no workflow"):
        App("shop", [handle])
    with pytest.raises(OptionsError, match="no name"):
        App("not a name", [one])


def test_every_public_name_is_there():
    assert all(hasattr(duraton, name) for name in duraton.__all__)
