"""Metrics for Prometheus: events are counted, gauges are read from the database at each scrape."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from datetime import timedelta
from itertools import accumulate
from threading import Lock
from typing import Any, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from embedq.model import Counts, SpaceId, Worker
from embedq.telemetry import Event, Facts

CONTENT_TYPE = CONTENT_TYPE_LATEST
STATES = ("pending", "processing", "completed", "failed", "cancelled")
FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)  # seconds: requests and calls
SLOW = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21_600, 86_400)  # seconds: put to stored

COUNTERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "embedq_events": ("Everything that happened, by the event's name in the log.", ("event",)),
    "embedq_records_put": ("Records that were written through this process.", ()),
    "embedq_jobs_settled": (
        "Attempts that ended here, by outcome: done, retry, failed, released, skipped.",
        ("outcome",),
    ),
    "embedq_job_retries": ("Attempts that failed and are tried again.", ()),
    "embedq_dead_letters": ("Jobs that were given up on, by reason.", ("reason",)),
    "embedq_vectors_stored": ("Vectors that were stored here.", ()),
    "embedq_vectors_reused": ("Vectors that were known already and not paid for again.", ()),
    "embedq_embed_calls": ("Calls of embedders, by how they ended.", ("outcome",)),
    "embedq_texts_embedded": ("Texts that embedders were asked for here.", ()),
    "embedq_tokens_used": ("Tokens that embedders said they used, where they say so.", ("model", "purpose")),
    "embedq_leases_lost": ("Leases that ran out while their worker still had the job.", ()),
    "embedq_jobs_rescued": ("Jobs that were taken back from workers that showed no sign of life.", ()),
    "embedq_jobs_reconciled": ("Records that had neither vector nor job and were given one.", ()),
    "embedq_throttled": ("Times a provider said not now.", ()),
    "embedq_budget_empty": ("Times the fleet's own budget was empty.", ()),
    "embedq_embedder_backoffs": ("Times an embedder as a whole was left alone for a while.", ()),
}
HISTOGRAMS: Mapping[str, tuple[str, tuple[str, ...], Sequence[float]]] = {
    "embedq_put_seconds": ("How long a write took.", (), FAST),
    "embedq_embed_call_seconds": ("How long one call of an embedder took.", (), FAST),
    "embedq_search_seconds": ("How long a search took, by the mode that answered.", ("mode",), FAST),
    "embedq_http_request_seconds": ("How long a request took, by its route.", ("method", "route"), FAST),
}
LATENCY = ("embedq_put_to_stored_seconds", "From a record's write to its vector; each batch by its mean.")
GAUGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "embedq_database_up": ("1: the database answered this scrape.", ()),
    "embedq_queue_jobs": ("Jobs by status and collection.", ("status", "collection")),
    "embedq_queue_paused": ("1: all leasing is stopped.", ()),
    "embedq_oldest_pending_seconds": ("How long the oldest pending job of a collection waits.", ("collection",)),
    "embedq_records": ("Live records by collection.", ("collection",)),
    "embedq_records_missing_vector": ("Live records without a vector of their current text.", ("collection",)),
    "embedq_records_truncated": ("Records whose vector stands for the beginning of the text only.", ("collection",)),
    "embedq_coverage_ratio": (
        "The part of live records known to have a vector of its current text.",
        ("collection",),
    ),
    "embedq_workers_alive": ("Workers that show signs of life.", ()),
    "embedq_budget_requests": ("Requests that the budget's last interval saw, by space.", ("space",)),
    "embedq_budget_tokens": ("Tokens that the budget's last interval saw, by space.", ("space",)),
    "embedq_held_seconds": ("How long no process may ask this space's provider.", ("space",)),
}
TABLE: tuple[
    tuple[str, str, tuple[str, ...], str], ...
] = (  # name, kind, labels, meaning: the reference page is generated from it
    *((f"{name}_total", "counter", labels, meaning) for name, (meaning, labels) in COUNTERS.items()),
    *((name, "histogram", labels, meaning) for name, (meaning, labels, _) in HISTOGRAMS.items()),
    (LATENCY[0], "histogram", (), LATENCY[1]),
    *((name, "gauge", labels, meaning) for name, (meaning, labels) in GAUGES.items()),
)


class Standing(Protocol):
    """The state of the queue at one moment."""

    @property
    def counts(self) -> Mapping[str, Counts]:
        """Jobs and records by collection."""
        ...

    @property
    def paused(self) -> bool:
        """Whether all leasing is stopped."""
        ...

    @property
    def workers(self) -> Sequence[Worker]:
        """The registry."""
        ...

    @property
    def oldest_pending(self) -> Mapping[str, timedelta]:
        """By collection."""
        ...

    @property
    def budgets(self) -> Mapping[SpaceId, Mapping[str, Any]]:
        """By space."""
        ...

    @property
    def spaces(self) -> Mapping[SpaceId, str]:
        """The spaces' names."""
        ...


class Spread:
    """A histogram that adds a whole batch in one step, since it runs on the database's writer thread."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Use these upper bounds."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = Lock()

    def add(self, seconds: float, count: int) -> None:
        """Add `count` observations of `seconds`."""
        with self._lock:
            self._counts[bisect_left(self._bounds, seconds)] += count
            self._sum += seconds * count

    def family(self, name: str, meaning: str) -> Metric:
        """Export it for a scrape."""
        with self._lock:
            totals, spent = list(accumulate(self._counts)), self._sum
        names = [*(f"{float(bound)}" for bound in self._bounds), "+Inf"]
        return HistogramMetricFamily(name, meaning, buckets=list(zip(names, totals, strict=True)), sum_value=spent)


class Metrics:
    """Counts events, and exports all metrics. Pass it to `Telemetry` as a handler."""

    def __init__(self) -> None:
        """Start at zero, in a separate registry: one process may have several."""
        self._registry = CollectorRegistry(auto_describe=False)
        self._counters = {
            name: Counter(name, meaning, labels, registry=self._registry)
            for name, (meaning, labels) in COUNTERS.items()
        }
        self._histograms = {
            name: Histogram(name, meaning, labels, buckets=buckets, registry=self._registry)
            for name, (meaning, labels, buckets) in HISTOGRAMS.items()
        }
        self._latency = Spread(SLOW)

    def __call__(self, event: Event, level: str, facts: Facts) -> None:  # noqa: ARG002 a handler's signature
        """Count one event."""
        self._add("embedq_events", 1, event.value)
        if (note := _NOTES.get(event)) is not None:
            note(self, facts)

    def requested(self, method: str, route: str, seconds: float) -> None:
        """Record how long a request took."""
        self._time("embedq_http_request_seconds", seconds, method, route)

    def written(self, standing: Standing | None) -> bytes:
        """Export all metrics; None: the database did not answer."""
        scrape = CollectorRegistry(auto_describe=False)
        scrape.register(_Scrape([*self._counted(), *_standing(standing)]))
        return generate_latest(scrape)

    def _counted(self) -> Iterator[Metric]:
        yield self._latency.family(*LATENCY)
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family

    def _add(self, name: str, amount: float, *labels: str) -> None:
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(amount)

    def _time(self, name: str, seconds: float, *labels: str) -> None:
        histogram = self._histograms[name]
        (histogram.labels(*labels) if labels else histogram).observe(seconds)

    def _put(self, facts: Facts) -> None:
        self._add("embedq_records_put", _number(facts, "records"))
        if "seconds" in facts:
            self._time("embedq_put_seconds", facts["seconds"])

    def _embedded(self, facts: Facts) -> None:
        self._add("embedq_embed_calls", 1, str(facts.get("outcome", "done")))
        self._add("embedq_texts_embedded", _number(facts, "texts"))
        if "seconds" in facts:
            self._time("embedq_embed_call_seconds", facts["seconds"])
        if facts.get("tokens") is not None:
            labels = str(facts.get("model", "unknown")), str(facts.get("purpose", "unknown"))
            self._add("embedq_tokens_used", facts["tokens"], *labels)

    def _settled(self, facts: Facts) -> None:
        for outcome in ("done", "retry", "failed", "released", "skipped"):
            self._add("embedq_jobs_settled", facts.get(outcome, 0), outcome)

    def _stored(self, facts: Facts) -> None:
        self._add("embedq_vectors_stored", facts["count"])
        self._latency.add(facts["seconds"], facts["count"])

    def _failed(self, facts: Facts) -> None:
        self._add("embedq_dead_letters", 1, str(facts.get("reason", "unknown")))

    def _searched(self, facts: Facts) -> None:
        if "seconds" in facts:
            self._time("embedq_search_seconds", facts["seconds"], str(facts.get("mode", "unknown")))


def _counting(name: str, *names: str) -> Callable[[Metrics, Facts], None]:
    """Count by the first of these facts."""
    return lambda metrics, facts: metrics._add(name, _number(facts, *names))  # noqa: SLF001 part of the class, written as a table


_NOTES: Mapping[Event, Callable[[Metrics, Facts], None]] = {
    Event.PUT: Metrics._put,  # noqa: SLF001 part of the class, written as a table
    Event.EMBEDDED: Metrics._embedded,  # noqa: SLF001 the same
    Event.SETTLED: Metrics._settled,  # noqa: SLF001 the same
    Event.STORED: Metrics._stored,  # noqa: SLF001 the same
    Event.JOB_FAILED: Metrics._failed,  # noqa: SLF001 the same
    Event.SEARCHED: Metrics._searched,  # noqa: SLF001 the same
    Event.JOB_RETRY: _counting("embedq_job_retries", "count"),
    Event.REUSED: _counting("embedq_vectors_reused", "count"),
    Event.LEASE_LOST: _counting("embedq_leases_lost", "count", "jobs"),
    Event.RESCUED: _counting("embedq_jobs_rescued", "count", "jobs"),
    Event.RECONCILED: _counting("embedq_jobs_reconciled", "armed", "count"),
    Event.THROTTLED: _counting("embedq_throttled", "count"),
    Event.BUDGET_EMPTY: _counting("embedq_budget_empty", "count"),
    Event.EMBEDDER_BACKOFF: _counting("embedq_embedder_backoffs", "count"),
}


def _number(facts: Facts, *names: str) -> float:
    """Read a count: a number, or the length of a list; an event without one counts as one."""
    value = next((facts[name] for name in names if name in facts), 1)
    if isinstance(value, Sized) and not isinstance(value, str):
        return len(value)
    return float(value) if isinstance(value, int | float) else 1


class _Scrape:
    """All metrics of one scrape."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        """Return them."""
        return self._families


def _standing(standing: Standing | None) -> Iterator[Metric]:
    families = {name: GaugeMetricFamily(name, meaning, labels=labels) for name, (meaning, labels) in GAUGES.items()}
    for name, labels, value in _figures(standing):
        families[name].add_metric(labels, value)
    yield from families.values()


def _figures(standing: Standing | None) -> Iterator[tuple[str, Sequence[str], float]]:
    yield "embedq_database_up", (), float(standing is not None)
    if standing is None:
        return
    yield "embedq_queue_paused", (), float(standing.paused)
    yield "embedq_workers_alive", (), sum(worker.alive for worker in standing.workers)
    for collection, counts in standing.counts.items():
        yield from _of_collection(collection, counts)
    for collection, waits in standing.oldest_pending.items():
        yield "embedq_oldest_pending_seconds", (collection,), waits.total_seconds()
    for space, facts in standing.budgets.items():
        name = (standing.spaces.get(space, str(space)),)
        yield "embedq_budget_requests", name, float(facts.get("requests", 0))
        yield "embedq_budget_tokens", name, float(facts.get("tokens", 0))
        yield "embedq_held_seconds", name, float(facts.get("held_seconds", 0))


def _of_collection(collection: str, counts: Counts) -> Iterator[tuple[str, Sequence[str], float]]:
    for status in STATES:
        yield "embedq_queue_jobs", (status, collection), float(getattr(counts, status))
    covered = 1.0 if counts.records <= 0 else max(0, counts.records - counts.uncovered) / counts.records
    yield "embedq_records", (collection,), float(counts.records)
    yield "embedq_records_missing_vector", (collection,), float(counts.missing)
    yield "embedq_records_truncated", (collection,), float(counts.truncated)
    yield "embedq_coverage_ratio", (collection,), covered
