"""Kendall's tau-b of score and length as a metric of evidently, with its interval shown.

A class of evidently has a configuration, which is stored by its name and fields, and a calculation;
results are stored as plain values, so ``evidently ui`` shows them without importing this.
"""

from __future__ import annotations

from typing import Any

from evidently.core.metric_types import SingleValueCalculation, SingleValueMetric
from evidently.legacy.renderers.html_widgets import CounterData, WidgetSize, counter

from drift.evidently_report.frames import CENSORED
from drift.tau import Tau, kendall_tau


class KendallTau(SingleValueMetric):  # type: ignore[misc]
    """tau-b of two columns, in [-1, 1]; where ``censored`` is 1, ``length`` is a lower bound."""

    score: str = "score"
    length: str = "output_tokens"
    censored: str = CENSORED


class KendallTauCalculation(SingleValueCalculation[KendallTau]):  # type: ignore[misc]
    def display_name(self) -> str:
        return "Kendall tau-b of forecast score and realised length"

    def calculate(self, context: Any, current_data: Any, reference_data: Any) -> Any:
        """Raises ``ValueError`` when tau-b isn't defined: no JSON holds what isn't a number."""
        tau = self._tau(current_data, "current")
        shown = [_shown(self.display_name(), tau)]
        before = None
        if reference_data is not None:
            tau_before = self._tau(reference_data, "reference")
            before = self.result(tau_before.value)
            shown.append(_shown("tau-b of the reference", tau_before))
        result = self.result(tau.value)
        result.widget = shown
        return result, before

    def _tau(self, data: Any, name: str) -> Tau:
        metric = self.metric
        scores, lengths, censored = (
            data.column(column).data.to_numpy(dtype="float64")
            for column in (metric.score, metric.length, metric.censored)
        )
        tau = kendall_tau(scores, lengths.astype("int64"), censored > 0.5)
        if not tau.defined:
            raise ValueError(f"the {name} cohort has no pair of outcomes whose order is known")
        return tau


def _shown(title: str, tau: Tau) -> Any:
    interval = f"95% interval {tau.low:.3f} to {tau.high:.3f}, {tau.n:,} outcomes"
    return counter(
        title=title, size=WidgetSize.HALF, counters=[CounterData(interval, f"{tau.value:.3f}")]
    )
