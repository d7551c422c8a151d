"""Whether scores and lengths of two cohorts are distributed alike: evidently's own question."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drift.evidently_report.frames import COLUMNS, axes_of, dataset
from drift.features import EMBEDDING, Columns
from drift.files import write_whole
from drift.meaning import Meaning
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class ColumnDrift:
    """One column: the test or distance that evidently chose, its value, and whether it drifted.
    ``embedding``, of rankers that have one: what is asked has changed in meaning."""

    column: str
    method: str
    value: float
    threshold: float
    drifted: bool


@dataclass(frozen=True, slots=True)
class DataDrift:
    """What evidently found. ``html`` is its page, self-contained and large (some megabytes)."""

    columns: tuple[ColumnDrift, ...]
    html: str

    def as_dict(self) -> dict[str, dict[str, float | str | bool]]:
        return {
            c.column: {
                "method": c.method,
                "value": c.value,
                "threshold": c.threshold,
                "drifted": c.drifted,
            }
            for c in self.columns
        }

    def write(self, path: Path) -> Path:
        """Write the page, whole or not at all."""
        return write_whole(path, self.html)


def data_drift(reference: Sequence[Outcome], current: Sequence[Outcome]) -> DataDrift:
    """Compare the scored ones of two cohorts of one ranker version.

    Raises ``ValueError`` when one has fewer than two scored outcomes.
    """
    from evidently import Report
    from evidently.presets import DataDriftPreset

    from drift.evidently_report.meaning import EmbeddingShift

    axes = axes_of(reference, current)
    before, after = dataset(reference, "reference", axes), dataset(current, "current", axes)
    metrics = [DataDriftPreset(columns=list(COLUMNS))]
    if axes:
        metrics.append(EmbeddingShift(axes=axes))
    with warnings.catch_warnings():
        # A column that never varies (say, unknown prompt lengths) divides by its zero spread.
        warnings.simplefilter("ignore", RuntimeWarning)
        snapshot = Report(metrics).run(after, before)
        html = snapshot.get_html_str(as_iframe=False)
    columns = _columns(snapshot.dict())
    if axes:
        columns.append(_embedding(reference, current))
    return DataDrift(tuple(columns), html)


def _embedding(reference: Sequence[Outcome], current: Sequence[Outcome]) -> ColumnDrift:
    """By the monitor's measure: evidently's are of one column each."""
    meaning = Meaning.of(Columns.of(reference).sketches)
    assert meaning is not None  # there are axes
    moved = meaning.moved(Columns.of(current).sketches)
    method = "Kolmogorov-Smirnov distance, largest of its projections"
    drifted = moved.distance > moved.chance
    return ColumnDrift(EMBEDDING, method, moved.distance, moved.chance, drifted)


def _columns(report: dict[str, Any]) -> list[ColumnDrift]:
    found = []
    for metric in report["metrics"]:
        config = metric.get("config", {})
        if not str(config.get("type", "")).endswith("ValueDrift"):
            continue
        method, threshold = str(config["method"]), float(config["threshold"])
        value = float(metric["value"])
        # p values drift when small, distances when large.
        drifted = value < threshold if "p_value" in method else value >= threshold
        found.append(ColumnDrift(str(config["column"]), method, value, threshold, drifted))
    return found
