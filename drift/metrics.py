"""The monitor's state for Prometheus, read when scraped.

Labels are bounded: served models and versions by ``monitor.streams``, slices by ``slices.total``,
reporters by what is remembered of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drift.board import Board, Faults, ModelBoard, Series
from drift.key import OTHER
from drift.states import State

_LABELS = ("served_model", "ranker", "version")
_SLICE = (*_LABELS, "lane", "tenant")


class Watched(Protocol):
    """What is scraped: ``drift.sink.MonitoredStore`` is one."""

    def board(self) -> Board: ...

    def counts(self) -> Mapping[tuple[str, bool, str], int]: ...


class DriftCollector(Collector):
    """Register once: ``registry.register(DriftCollector(sink))``.

    Only the ranker version that a served model uses now is exported: a replaced one stops alerting.
    Gauges that aren't known yet (no reference, nothing scored) are absent rather than zero.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def describe(self) -> list[Metric]:
        return []  # nothing to read yet when it is registered

    def collect(self) -> Iterator[Metric]:
        board = self._watched.board()
        gauges = _Gauges()
        for model in board.models:
            _whole(gauges, model)
            for row in model.slices:
                _slice(gauges, row)
        for reporter in board.reporters:
            labels = (reporter.reporter,)
            for name, value in (
                ("reporter_last_timestamp_seconds", reporter.last_report),
                ("reporter_clock_ahead_seconds", reporter.clock_ahead_seconds),
                ("reporter_suspect", float(bool(reporter.notes))),
            ):
                gauges.add(f"shortfirst_drift_{name}", labels, value)
        yield from gauges.families()
        outcomes = CounterMetricFamily(
            "shortfirst_drift_outcomes",
            "Outcomes stored since the start.",
            labels=("served_model", "scored", "finish_reason"),
        )
        for (served_model, scored, reason), count in sorted(self._watched.counts().items()):
            outcomes.add_metric((served_model, str(scored).lower(), reason), count)
        yield outcomes
        yield from _faults(board.faults)


class _Gauges:
    """Families in the order in which they are first met."""

    def __init__(self) -> None:
        self._families: dict[str, GaugeMetricFamily] = {}

    def add(
        self, name: str, values: tuple[str, ...], value: float | None, *extra: tuple[str, str]
    ) -> None:
        """One sample, unless it is not known; ``extra`` are further labels with their values."""
        if value is None:
            return
        if name not in self._families:
            text, labels = _HELP[name]
            names = (*labels, *(label for label, _ in extra))
            self._families[name] = GaugeMetricFamily(name, text, labels=names)
        self._families[name].add_metric((*values, *(v for _, v in extra)), float(value))

    def families(self) -> Iterator[Metric]:
        yield from self._families.values()


def _whole(gauges: _Gauges, model: ModelBoard) -> None:
    row = model.overall
    labels = (row.served_model, row.ranker, row.version)
    for name, value in (
        ("state", float(State[row.state.upper()])),
        ("tau", row.tau.value),
        ("tau_low", row.tau.low),
        ("tau_high", row.tau.high),
        ("reference_tau", row.reference_tau),
        ("concordance", row.concordance.value),
        ("concordance_low", row.concordance.low),
        ("concordance_high", row.concordance.high),
        ("chart", row.chart),
        ("chart_limit", row.chart_degraded),
        ("unscored_ratio", row.unscored),
        ("censored_ratio", row.censored),
        ("coverage_p50", row.coverage_p50),
        ("coverage_p90", row.coverage_p90),
        ("last_arrival_timestamp_seconds", row.last_arrival),
        ("usual_efficiency_ratio", row.usual_efficiency),
        ("p99_ratio", row.p99_ratio),
        ("saved_seconds", row.saved_seconds.value),
        ("held", model.held),
        ("late", model.late),
        ("open", model.open),
        ("survivorship", float(bool(model.survival))),
    ):
        gauges.add(f"shortfirst_drift_{name}", labels, value)
    for mean, found in (("e2el", row.efficiency), ("per_token", row.efficiency_per_token)):
        for end, value in (("ratio", found.value), ("low", found.low), ("high", found.high)):
            name = f"shortfirst_drift_sjf_efficiency_{end}"
            gauges.add(name, labels, value, ("mean", mean))
    for shift in model.shifts:
        gauges.add("shortfirst_drift_shift_psi", labels, shift.psi, ("feature", shift.name))
        name = "shortfirst_drift_shift_distance"
        gauges.add(name, labels, shift.distance, ("feature", shift.name))
    for band in model.bands:
        name = "shortfirst_drift_pair_accuracy_ratio"
        gauges.add(name, labels, band.accuracy, ("from_tokens", str(band.low)))


def _slice(gauges: _Gauges, row: Series) -> None:
    labels = (row.served_model, row.ranker, row.version, *_part(row))
    for name, value in (
        ("state", float(State[row.state.upper()])),
        ("tau", row.tau.value),
        ("reference_tau", row.reference_tau),
        ("efficiency_ratio", row.efficiency.value),
        ("traffic_ratio", row.traffic),
        ("unscored_ratio", row.unscored),
        ("harm", row.harm),
    ):
        gauges.add(f"shortfirst_drift_slice_{name}", labels, value)


def _part(row: Series) -> tuple[str, str]:
    """Lane and tenant as labels; both are ``(other)`` for all that have no series of their own. A
    name that begins like that gets a backslash, so that it stays another's."""
    if row.lane is None:
        return OTHER, OTHER
    lane, tenant = (f"\\{n}" if n[:1] in ("(", "\\") else n for n in (row.lane, row.tenant or ""))
    return lane, tenant


def _faults(faults: Faults) -> Iterator[Metric]:
    for name, text, value in (
        ("duplicates", "Reports of outcomes that were known.", faults.duplicates),
        ("conflicts", "Those of them with other numbers; the first count.", faults.conflicts),
        ("bounds", "Open requests that entered as lower bounds.", faults.bounds),
        ("settled", "Those of them that ended since.", faults.settled),
        ("clock_mended", "Outcomes whose times were put right.", faults.clock),
        ("refused", "Outcomes that could not be stored and were not taken.", faults.refused),
        ("jobs_dropped", "Work around the monitor that found no place to wait.", faults.jobs),
    ):
        yield CounterMetricFamily(f"shortfirst_drift_{name}", text, value=value)


def _described() -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    for labels, prefix, texts in (
        (_LABELS, "", _WHOLE_HELP),
        (_SLICE, "slice_", _SLICE_HELP),
        (("reporter",), "reporter_", _REPORTER_HELP),
    ):
        for name, text in texts.items():
            yield f"shortfirst_drift_{prefix}{name}", (text, labels)


_WHOLE_HELP = {
    "state": "0 ok, 1 warn, 2 degraded, 3 fcfs: how far forecasts can be trusted.",
    "tau": "Kendall tau-b of score and realised length, window.",
    "tau_low": "Lower end of its 95% interval.",
    "tau_high": "Upper end of its 95% interval.",
    "reference_tau": "tau-b when the reference was learned.",
    "concordance": "Harrell's C of score and realised length, window.",
    "concordance_low": "Lower end of its 95% interval.",
    "concordance_high": "Upper end of its 95% interval.",
    "chart": "Height of the concordance chart (CUSUM).",
    "chart_limit": "Height at which it calls the forecasts degraded.",
    "unscored_ratio": "Share of requests without a forecast, window.",
    "censored_ratio": "Share of lengths that are lower bounds, window.",
    "coverage_p50": "Share of answers within their forecast median, window.",
    "coverage_p90": "Share of answers within their forecast p90, window.",
    "last_arrival_timestamp_seconds": "Arrival of the newest one weighed.",
    "sjf_efficiency_ratio": "Share of an oracle's gain over FCFS that the forecasts gain, window "
    "replayed.",
    "sjf_efficiency_low": "Lower end of its 95% interval.",
    "sjf_efficiency_high": "Upper end of its 95% interval.",
    "usual_efficiency_ratio": "SJF efficiency of mean E2EL while all was well.",
    "p99_ratio": "p99 E2EL of the replay in forecast order over that of FCFS.",
    "saved_seconds": "E2EL saved per request against FCFS, last hour's load, window.",
    "shift_psi": "Population stability index against the reference, window; of embeddings the "
    "largest of their projections.",
    "shift_distance": "Kolmogorov-Smirnov distance from the reference, window; of embeddings the "
    "largest of their projections.",
    "pair_accuracy_ratio": "Share of pairs ordered rightly, by length of the longer one, window.",
    "held": "Outcomes held back for arrival order.",
    "late": "Outcomes that came too late for arrival order, not on the chart.",
    "open": "Requests known to be under way.",
    "survivorship": "1 when what was ranked and what is reported do not fit together.",
}

_SLICE_HELP = {
    "state": "State of one lane and tenant: 0 ok, 1 warn, 2 degraded, 3 fcfs.",
    "tau": "Kendall tau-b of one lane and tenant, window.",
    "reference_tau": "tau-b when its reference was learned.",
    "efficiency_ratio": "SJF efficiency of mean E2EL of one lane and tenant.",
    "traffic_ratio": "Its share of its served model's traffic of late.",
    "unscored_ratio": "Share of its requests without a forecast, window.",
    "harm": "Efficiency lost times share of traffic.",
}

_REPORTER_HELP = {
    "last_timestamp_seconds": "When it reported last.",
    "clock_ahead_seconds": "How far its clock is ahead of the service's; below 0: behind.",
    "suspect": "1 when its reports look wrong: clock, lateness, long ones left out.",
}

_HELP = dict(_described())
