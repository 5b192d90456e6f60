"""The figures of `/metrics`, as `definitions.py` defines them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from oneglance.control.cost import PassCosts
from oneglance.scheduler.handle import Handle
from oneglance.scheduler.stats import PassRows, SchedulerStats
from oneglance.server.definitions import DEFINITIONS

LENGTH_BUCKETS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
FIRST_TOKEN_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
PER_TOKEN_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)

COMPUTE_BOUND_GROWTH = 1.5
"""See the definition of `oneglance_regime`."""


class Metrics:
    """What one server measures. Each has a registry of its own."""

    def __init__(self, stats: Callable[[], SchedulerStats], costs: PassCosts) -> None:
        """Takes where the scheduler's figures come from, and what passes cost."""
        self._registry = CollectorRegistry()
        self._registry.register(_SchedulerFigures(stats, costs))
        self._first_token = self._histogram(
            "oneglance_time_to_first_token_seconds", FIRST_TOKEN_BUCKETS
        )
        self._per_token = self._histogram("oneglance_time_per_token_seconds", PER_TOKEN_BUCKETS)
        responses = DEFINITIONS["oneglance_http_responses"]
        self._responses = Counter(
            responses.name, responses.text, responses.labels, registry=self._registry
        )

    def note_answer(self, handle: Handle, num_tokens: int) -> None:
        """Counts an answer that has come to its end."""
        timing = handle.timing
        if timing.first_token is None or timing.ended is None:
            return
        self._first_token.observe(timing.first_token - timing.submitted)
        if num_tokens > 1:
            self._per_token.observe((timing.ended - timing.first_token) / (num_tokens - 1))

    def note_response(self, path: str, status: int) -> None:
        """Counts a response."""
        self._responses.labels(path, str(status)).inc()

    def page(self) -> bytes:
        """All figures in the text format of Prometheus."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, DEFINITIONS[name].text, buckets=buckets, registry=self._registry)


class _SchedulerFigures(Collector):
    """Reads the scheduler's figures when they are asked for."""

    def __init__(self, stats: Callable[[], SchedulerStats], costs: PassCosts) -> None:
        self._stats = stats
        self._costs = costs

    def describe(self) -> list[Metric]:
        """Names nothing in advance, so that registering asks the scheduler nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The figures as of the last pass."""
        stats = self._stats()
        yield _counter("oneglance_passes", stats.num_passes)
        yield _counter("oneglance_rows", _by_kind(stats.rows))
        yield _gauge("oneglance_batch_rows", _by_kind(stats.last_pass))
        yield _counter("oneglance_drafted_tokens", _by_number(stats.drafted_by_depth))
        yield _counter("oneglance_accepted_tokens", _by_number(stats.accepted_by_depth))
        yield _lengths("oneglance_accepted_length", stats.accepted_lengths)
        yield _lengths("oneglance_draft_length", stats.drafted_lengths)
        yield _gauge("oneglance_draft_length_in_force", stats.mean_k)
        growth = _growth(self._costs, stats.last_pass)
        yield _gauge("oneglance_regime", _regime(growth))
        yield _gauge("oneglance_pass_growth", growth)
        yield _gauge("oneglance_waiting_requests", stats.num_waiting)
        phases = {"reading": stats.num_reading, "decoding": stats.num_decoding}
        yield _gauge("oneglance_running_requests", phases)
        yield _counter("oneglance_requests", stats.ended)
        yield _counter("oneglance_preemptions", stats.num_preemptions)
        yield _counter("oneglance_prompt_tokens", stats.prompt_tokens)
        yield _counter("oneglance_cached_prompt_tokens", stats.cached_prompt_tokens)
        yield _counter("oneglance_prefix_hits", stats.num_prefix_hits)
        yield _gauge("oneglance_cached_tokens", stats.num_cached_tokens)
        pages = {"used": stats.pages_used, "limit": stats.pages_total}
        known = {state: count for state, count in pages.items() if count is not None}
        yield _gauge("oneglance_kv_pages", known)
        yield _counter("oneglance_delivered_tokens", stats.delivered_tokens)
        yield _gauge("oneglance_draining", int(stats.is_draining))


def _by_kind(rows: PassRows) -> dict[str, int]:
    return {"prompt": rows.prompt, "decided": rows.decided, "drafted": rows.drafted}


def _by_number(counts: Mapping[int, int]) -> dict[str, int]:
    return {str(number): counts[number] for number in sorted(counts)}


def _growth(costs: PassCosts, rows: PassRows) -> float:
    count = max(1, rows.prompt + rows.decided + rows.drafted)
    return costs.seconds_of(2 * count) / costs.seconds_of(count)


def _regime(growth: float) -> dict[str, int]:
    is_compute = growth > COMPUTE_BOUND_GROWTH
    return {"memory": int(not is_compute), "compute": int(is_compute)}


def _counter(name: str, value: float | Mapping[str, float]) -> Metric:
    definition = DEFINITIONS[name]
    family = CounterMetricFamily(name, definition.text, labels=definition.labels)
    return _filled(family, value)


def _gauge(name: str, value: float | Mapping[str, float]) -> Metric:
    definition = DEFINITIONS[name]
    family = GaugeMetricFamily(name, definition.text, labels=definition.labels)
    return _filled(family, value)


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, value: float | Mapping[str, float]
) -> Metric:
    if isinstance(value, Mapping):
        for label, each in value.items():
            family.add_metric([label], each)
    else:
        family.add_metric([], value)
    return family


def _lengths(name: str, counts: Mapping[int, int]) -> Metric:
    buckets = [
        (str(float(limit)), float(sum(n for length, n in counts.items() if length <= limit)))
        for limit in LENGTH_BUCKETS
    ]
    buckets.append(("+Inf", float(sum(counts.values()))))
    family = HistogramMetricFamily(name, DEFINITIONS[name].text)
    family.add_metric([], buckets, float(sum(length * n for length, n in counts.items())))
    return family
