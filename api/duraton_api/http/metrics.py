"""Counters for Prometheus. One object a node; nothing here is global."""

from collections import Counter as Sums
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from duraton_api.view.flow.reads import FlowCount
from duraton_api.view.flow.rows import BUFFERED, BUFFERS, WAITING, WINDOWS
from duraton_engine.effects import Metered
from duraton_schemas.cap import MICROS
from duraton_schemas.records import journal as j
from duraton_schemas.records.common import Fact

COMMIT_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5)
REQUEST_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

AI_SERIES_MAX = 2_000
"""Combinations of app, workflow and model that are counted apart; others are one."""
FLOW_SERIES_MAX = 2_000
"""Combinations of app, workflow and control that one gauge shows apart; others are one."""
_OTHER = "other"

MEDIA_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """What a node counts.

    Attributes:
        registry: The Prometheus registry; others may add to it.
        events: Events recorded.
        runs_started: First starts of runs.
        runs_ended: Runs ended, by `status`.
        batches: Committed batches, by `partition`.
        facts: Committed facts.
        commit_seconds: How long a batch's commit took.
        requests: HTTP requests, by `status` class such as 2xx.
        ai_tokens: Tokens of models, by `app`, `workflow` and `model`.
        ai_cost: Dollars, by the same.
        ai_unknown: Calls of models whose usage or cost is not known, by the same.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.events = Counter("duraton_events_recorded", "Events recorded.", registry=self.registry)
        self.runs_started = Counter(
            "duraton_runs_started", "First starts of runs.", registry=self.registry
        )
        self.runs_ended = Counter(
            "duraton_runs_ended", "Runs ended.", ["status"], registry=self.registry
        )
        self.batches = Counter(
            "duraton_batches", "Committed batches.", ["partition"], registry=self.registry
        )
        self.facts = Counter("duraton_facts", "Committed facts.", registry=self.registry)
        self.commit_seconds = Histogram(
            "duraton_commit_seconds",
            "How long a batch's commit took.",
            buckets=COMMIT_BUCKETS_S,
            registry=self.registry,
        )
        self.requests = Counter(
            "duraton_http_requests", "HTTP requests.", ["status"], registry=self.registry
        )
        self.request_seconds = Histogram(
            "duraton_http_request_seconds",
            "How long an HTTP request took.",
            buckets=REQUEST_BUCKETS_S,
            registry=self.registry,
        )
        labels = ["app", "workflow", "model"]
        self.ai_tokens = Counter(
            "duraton_ai_tokens", "Tokens of models.", labels, registry=self.registry
        )
        self.ai_cost = Counter(
            "duraton_ai_cost_dollars", "Cost of calls of models.", labels, registry=self.registry
        )
        self.ai_unknown = Counter(
            "duraton_ai_unknown_calls",
            "Calls of models whose usage or cost is not known.",
            labels,
            registry=self.registry,
        )
        self._ai_labels: set[tuple[str, str, str]] = set()
        self._view_queue = Gauge(
            "duraton_view_queued_facts",
            "Committed facts that the view has not folded yet.",
            registry=self.registry,
        )
        of = ["app", "workflow"]
        self._flow = {
            kind: Gauge(f"duraton_{name}", told, labels, registry=self.registry)
            for kind, name, told, labels in (
                (WAITING, "runs_waiting", "Queued runs, by what they wait for.", [*of, "control"]),
                (WINDOWS, "debounce_windows", "Debounce windows, open or held.", of),
                (BUFFERS, "batch_buffers", "Batch buffers, open or held.", of),
                (BUFFERED, "batch_events", "Events in batch buffers.", of),
            )
        }
        self._by_status = {
            status: self.runs_ended.labels(status)
            for status in ("completed", "failed", "cancelled")
        }
        self._by_class = {n: self.requests.labels(f"{n}xx") for n in range(1, 6)}

    def watch_view(self, queued: Callable[[], float]) -> None:
        """Show the view's lag.

        Args:
            queued: Gives the number of facts that wait to be folded.
        """
        self._view_queue.set_function(queued)

    def batch(self, partition: int, facts: Sequence[tuple[int, Fact]]) -> None:
        """Count a committed batch and what its facts say."""
        events = started = 0
        for _, fact in facts:
            kind = type(fact)
            if kind is j.EventRecorded:
                events += 1
            elif kind is j.RunStarted:
                started += fact.first  # type: ignore[attr-defined] # its type is just above
            elif kind is j.RunEnded:
                self._by_status[fact.status].inc()  # type: ignore[attr-defined] # as above
        if events:
            self.events.inc(events)
        if started:
            self.runs_started.inc(started)
        self.facts.inc(len(facts))
        self.batches.labels(str(partition)).inc()

    def metered(self, effect: Metered) -> None:
        """Count what a call of a model used."""
        spend = effect.spend
        labels = (effect.app, effect.workflow, spend.model or "unknown")
        if labels not in self._ai_labels:
            if len(self._ai_labels) >= AI_SERIES_MAX:
                labels = ("other", "other", "other")
            self._ai_labels.add(labels)
        self.ai_tokens.labels(*labels).inc(spend.tokens)
        self.ai_cost.labels(*labels).inc(spend.cost / MICROS)
        if spend.unknown or spend.cost_unknown:
            self.ai_unknown.labels(*labels).inc()

    def flow(self, counts: Sequence[FlowCount]) -> None:
        """Show what waits, as the view has it; with no counts, nothing of it is shown."""
        sums: dict[str, Sums[tuple[str, ...]]] = {kind: Sums() for kind in self._flow}
        for each in counts:
            found = sums.get(each.kind)
            if found is None:
                continue
            labels: tuple[str, ...] = (each.app, each.workflow)
            if each.kind == WAITING:
                labels = (*labels, each.of)
            if labels not in found and len(found) >= FLOW_SERIES_MAX:
                labels = (_OTHER,) * len(labels)
            found[labels] += each.total
        for kind, gauge in self._flow.items():
            gauge.clear()
            for labels, total in sums[kind].items():
                gauge.labels(*labels).set(total)

    def request(self, status: int, seconds: float) -> None:
        """Count an HTTP request."""
        self._by_class[status // 100].inc()
        self.request_seconds.observe(seconds)

    def text(self) -> bytes:
        """Everything in Prometheus' text form."""
        return generate_latest(self.registry)
