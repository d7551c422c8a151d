"""What became of prompts that were to be retained, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drift.retention import Retention

_RESULTS = ("kept", "dropped", "oversize", "failed", "deleted")


class RetentionCollector(Collector):
    """Register once, where retention is on, with what keeps the prompts."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        counts = self._retention.counts()
        told = CounterMetricFamily(
            "shortfirst_drift_prompts",
            "Prompts by what became of them; dropped and failed ones are missing when retraining.",
            labels=("result",),
        )
        for result in _RESULTS:
            told.add_metric((result,), getattr(counts, result))
        yield told
        yield GaugeMetricFamily(
            "shortfirst_drift_prompts_held", "Prompts on disk.", value=counts.prompts
        )
        yield GaugeMetricFamily(
            "shortfirst_drift_prompts_held_bytes", "Text of prompts on disk.", value=counts.bytes
        )
