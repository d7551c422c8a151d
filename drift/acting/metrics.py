"""What is done about drift, for Prometheus. Labels are bounded as those of the monitor are."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drift.acting.acting import Acting

_VERSION = ("served_model", "ranker", "version")


class ActingCollector(Collector):
    """Register once: ``registry.register(ActingCollector(acting))``."""

    def __init__(self, acting: Acting) -> None:
        self._acting = acting

    def describe(self) -> list[Metric]:
        return []  # nothing to read yet when it is registered

    def collect(self) -> Iterator[Metric]:
        trust = GaugeMetricFamily(
            "shortfirst_drift_trust_ratio",
            "Say that schedulers leave to forecasts: 1 all of it, 0 order by arrival.",
            labels=_VERSION,
        )
        slices = GaugeMetricFamily(
            "shortfirst_drift_slice_trust_ratio",
            "The same of one lane and tenant.",
            labels=(*_VERSION, "lane", "tenant"),
        )
        fitted = GaugeMetricFamily(
            "shortfirst_drift_recalibrated",
            "1 while quantiles given out are fitted to recent outcomes.",
            labels=_VERSION,
        )
        active = self._acting.recalibration.active
        for key, value in self._acting.trusts().items():
            labels = (key.served_model, key.ranker, key.version)
            if key.sliced:
                slices.add_metric((*labels, key.lane or "", key.tenant or ""), value)
            else:
                trust.add_metric(labels, value)
                fitted.add_metric(labels, float(key in active))
        yield from (trust, slices, fitted)
