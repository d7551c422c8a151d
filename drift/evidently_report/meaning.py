"""How far the meaning of prompts has moved, as a metric of evidently: see ``drift.meaning``.

Without tests: what is asked may change while the order stays good.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from evidently.core.metric_types import SingleValueCalculation, SingleValueMetric
from evidently.legacy.renderers.html_widgets import CounterData, WidgetSize, counter

from drift.evidently_report.frames import embedding_columns
from drift.kaplan_meier import Floats
from drift.meaning import Meaning


class EmbeddingShift(SingleValueMetric):  # type: ignore[misc]
    """Distance of the columns of an embedding with so many ``axes`` from those of the reference."""

    axes: int


class EmbeddingShiftCalculation(SingleValueCalculation[EmbeddingShift]):  # type: ignore[misc]
    def display_name(self) -> str:
        return "Shift of the meaning of prompts (Kolmogorov-Smirnov, largest of its projections)"

    def calculate(self, context: Any, current_data: Any, reference_data: Any) -> Any:
        """Raises ``ValueError`` with too few to compare: no JSON holds what isn't a number."""
        axes = self.metric.axes
        known = self._known(reference_data) if reference_data is not None else np.empty((0, axes))
        meaning = Meaning.of({axes: known})
        moved = meaning.moved({axes: self._known(current_data)}) if meaning is not None else None
        if moved is None or np.isnan(moved.distance):
            raise ValueError("too few outcomes carry an embedding to compare them")
        about = f"{moved.chance:.3f} is passed by chance in at most 5%, {moved.window:,} outcomes"
        result = self.result(moved.distance)
        shown = [CounterData(about, f"{moved.distance:.3f}")]
        result.widget = [counter(title=self.display_name(), size=WidgetSize.HALF, counters=shown)]
        return result, None

    def _known(self, data: Any) -> Floats:
        columns = [
            data.column(name).data.to_numpy(dtype="float64")
            for name in embedding_columns(self.metric.axes)
        ]
        table = np.column_stack(columns)
        known: Floats = table[~np.isnan(table).any(axis=1)]
        return known
