"""What became of notices, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drift.notify.notifier import Notifier

#: Every result is exported from the start, so that a first one is an increase.
RESULTS = (
    "delivered", "resent", "retried", "duplicate", "refused", "exhausted", "dropped", "unsent",
)  # fmt: skip


class NotifyCollector(Collector):
    """Register once: ``registry.register(NotifyCollector(notifier))``."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        labels = ("webhook", "kind")
        told = CounterMetricFamily(
            "shortfirst_drift_notifications",
            "Notices by what became of them; refused, exhausted, dropped and unsent are lost.",
            labels=(*labels, "result"),
        )
        waiting = GaugeMetricFamily(
            "shortfirst_drift_notifications_waiting", "Notices not delivered yet.", labels=labels
        )
        firing = GaugeMetricFamily(
            "shortfirst_drift_notifications_firing", "Alerts that are not over.", labels=labels
        )
        for delivery in self._notifier.deliveries():
            where = (delivery.name, delivery.kind)
            for result in RESULTS:
                told.add_metric((*where, result), delivery.results.get(result, 0))
            waiting.add_metric(where, delivery.waiting)
            firing.add_metric(where, delivery.firing)
        yield told
        yield waiting
        yield firing
