"""Challengers at work and attempts at retraining for Prometheus, read when scraped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drift.retraining import Phase

_RIVALS = ("served_model", "ranker", "champion", "challenger")
_GAUGES = {
    "champion_tau": "tau-b of the version that serves, on shadowed outcomes, window.",
    "challenger_tau": "tau-b of the challenger on the same outcomes.",
    "difference": "tau-b of the challenger minus that of the version that serves.",
    "low": "Lower end of the 95% interval of the difference.",
    "high": "Upper end of the 95% interval of the difference.",
    "total_pairs": "Outcomes that both were compared on so far.",
    "waiting": "Shadowed requests whose outcome or score has not come.",
}
_PROMPTS = {
    "scored": "Live prompts that a challenger scored.",
    "dropped": "Live prompts that no challenger scored, because too many waited.",
    "failed": "Live prompts that a challenger failed on.",
}


class Looped(Protocol):
    """What is scraped; ``serving.loop.Loop`` is one."""

    def shadows(self) -> Sequence[Mapping[str, Any]]: ...

    def prompts(self) -> Mapping[str, int]: ...

    def retraining(self) -> Sequence[Mapping[str, Any]]: ...


class LoopCollector(Collector):
    """Register once. What is not known yet is absent rather than zero; labels are bounded by the
    challengers that are kept apart."""

    def __init__(self, looped: Looped) -> None:
        self._looped = looped

    def describe(self) -> list[Metric]:
        return []  # nothing to read yet when it is registered

    def collect(self) -> Iterator[Metric]:
        rows = self._looped.shadows()
        for name, text in _GAUGES.items():
            family = GaugeMetricFamily(f"shortfirst_drift_shadow_{name}", text, labels=_RIVALS)
            for row in rows:
                if row[name] is not None:
                    family.add_metric([row[label] for label in _RIVALS], float(row[name]))
            yield family
        counts = self._looped.prompts()
        for name, text in _PROMPTS.items():
            yield CounterMetricFamily(
                f"shortfirst_drift_shadow_prompts_{name}", text, value=counts.get(name, 0)
            )
        phase = GaugeMetricFamily(
            "shortfirst_drift_retraining_phase",
            "1 for the phase that the last attempt at retraining is in.",
            labels=("served_model", "ranker", "phase"),
        )
        for row in self._looped.retraining():
            for one in Phase:
                labels = [row["served_model"], row["ranker"], str(one)]
                phase.add_metric(labels, float(one == row["phase"]))
        yield phase
