"""The monitor's state for Prometheus, read when scraped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drift.key import Key
from drift.monitor import Snapshot
from drift.states import State
from engine.efficiency import Efficiency

_LABELS = ("served_model", "ranker", "version")


class Watched(Protocol):
    """What is scraped: ``drift.sink.MonitoredStore`` is one."""

    def snapshots(self) -> Sequence[Snapshot]: ...

    def counts(self) -> Mapping[tuple[str, bool, str], int]: ...

    def efficiencies(self) -> Mapping[Key, Efficiency]: ...


class DriftCollector(Collector):
    """Register once: ``registry.register(DriftCollector(sink))``.

    Only the stream that a served model uses now is exported: a replaced ranker stops alerting.
    Gauges that aren't known yet (no reference, nothing scored) are absent rather than zero.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def describe(self) -> list[Metric]:
        return []  # nothing to read yet when it is registered

    def collect(self) -> Iterator[Metric]:
        gauges = {name: GaugeMetricFamily(name, text, labels=_LABELS) for name, text in _GAUGES}
        state = GaugeMetricFamily(
            "shortfirst_drift_state",
            "0 ok, 1 warn, 2 degraded, 3 fcfs: how far forecasts can be trusted.",
            labels=_LABELS,
        )
        for snapshot in self._watched.snapshots():
            if not snapshot.current:
                continue
            labels = (snapshot.key.served_model, snapshot.key.ranker, snapshot.key.version)
            state.add_metric(labels, float(State(snapshot.state)))
            for name, value in _values(snapshot).items():
                if value is not None and value == value:  # NaN is not equal to itself
                    gauges[name].add_metric(labels, float(value))
        outcomes = CounterMetricFamily(
            "shortfirst_drift_outcomes",
            "Outcomes stored since the start.",
            labels=("served_model", "scored", "finish_reason"),
        )
        for (model, scored, reason), count in sorted(self._watched.counts().items()):
            outcomes.add_metric((model, str(scored).lower(), reason), count)
        worth = GaugeMetricFamily(
            "shortfirst_drift_sjf_efficiency_ratio",
            "Share of an oracle's gain over FCFS that the forecasts gain, window replayed.",
            labels=(*_LABELS, "mean"),
        )
        for key, found in self._watched.efficiencies().items():
            for mean, share in (("e2el", found.e2el), ("per_token", found.per_token)):
                if share == share:
                    worth.add_metric((key.served_model, key.ranker, key.version, mean), share)
        yield state
        yield worth
        yield from gauges.values()
        yield outcomes


_GAUGES = (
    ("shortfirst_drift_tau", "Kendall tau-b of score and realised length, window."),
    ("shortfirst_drift_tau_low", "Lower end of its 95% interval."),
    ("shortfirst_drift_tau_high", "Upper end of its 95% interval."),
    ("shortfirst_drift_reference_tau", "tau-b when the reference was learned."),
    ("shortfirst_drift_chart", "Height of the concordance chart (CUSUM)."),
    ("shortfirst_drift_chart_limit", "Height at which it calls the forecasts degraded."),
    ("shortfirst_drift_unscored_ratio", "Share of requests without a forecast, window."),
    ("shortfirst_drift_censored_ratio", "Share of lengths that are lower bounds, window."),
    ("shortfirst_drift_coverage_p50", "Share of answers within their forecast median, window."),
    ("shortfirst_drift_coverage_p90", "Share of answers within their forecast p90, window."),
    ("shortfirst_drift_last_arrival_timestamp_seconds", "Arrival of the newest one weighed."),
    ("shortfirst_drift_held", "Outcomes held back for arrival order."),
    ("shortfirst_drift_late", "Outcomes that came too late for arrival order, not weighed."),
)


def _values(snapshot: Snapshot) -> dict[str, float | None]:
    cohort, reference = snapshot.cohort, snapshot.reference
    return {
        "shortfirst_drift_tau": cohort.tau.value,
        "shortfirst_drift_tau_low": cohort.tau.low,
        "shortfirst_drift_tau_high": cohort.tau.high,
        "shortfirst_drift_reference_tau": reference.tau.value if reference else None,
        "shortfirst_drift_chart": snapshot.chart,
        "shortfirst_drift_chart_limit": reference.degraded_limit if reference else None,
        "shortfirst_drift_unscored_ratio": cohort.unscored_share,
        "shortfirst_drift_censored_ratio": cohort.censored_share,
        "shortfirst_drift_coverage_p50": cohort.coverage_p50,
        "shortfirst_drift_coverage_p90": cohort.coverage_p90,
        "shortfirst_drift_last_arrival_timestamp_seconds": cohort.last_arrival,
        "shortfirst_drift_held": snapshot.held,
        "shortfirst_drift_late": snapshot.late,
    }
