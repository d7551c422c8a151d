"""Metrics that are counted elsewhere, and read when somebody scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from engine.readings import Distribution, Reading


class Snapshot(Collector):
    """Gauges, counters and histograms as ``read`` gives them.

    Readings whose names end in ``_total`` are counters. ``help`` names every metric that may come.
    """

    def __init__(
        self, read: Callable[[], Iterable[Reading | Distribution]], help: Mapping[str, str]
    ) -> None:
        self._read = read
        self._help = dict(help)

    def describe(self) -> Iterable[Any]:
        return [self._family(name, ()) for name in self._help]

    def collect(self) -> Iterable[Any]:
        families: dict[str, Any] = {}
        for reading in self._read():
            if isinstance(reading, Distribution):
                families[reading.name] = self._histogram(reading)
                continue
            name, value, labels = reading
            if name not in families:
                families[name] = self._family(name, [label for label, _ in labels])
            families[name].add_metric([text for _, text in labels], value)
        return families.values()

    def _family(self, name: str, labels: Sequence[str]) -> Any:
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        return kind(name, self._help[name], labels=labels)

    def _histogram(self, reading: Distribution) -> HistogramMetricFamily:
        bounds = [*map(floatToGoString, reading.bounds), "+Inf"]
        counts = list(accumulate(map(float, reading.counts)))
        return HistogramMetricFamily(
            reading.name,
            self._help[reading.name],
            buckets=list(zip(bounds, counts, strict=True)),
            sum_value=reading.total,
        )
