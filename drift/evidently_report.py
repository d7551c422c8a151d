"""Evidently's data-drift report of two cohorts: the one module that imports evidently.

It looks at marginal distributions (scores, lengths), which is another question than order: traffic
can shift while the ranking holds, and the ranking can fail while nothing here moves.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drift.files import write_whole
from ranker.types import Outcome

COLUMNS = ("score", "output_tokens", "prompt_tokens")


@dataclass(frozen=True, slots=True)
class ColumnDrift:
    """One column: the test or distance that evidently chose, its value, and whether it drifted."""

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

    Raises ``ValueError`` when one has fewer than two scored outcomes. Sends nothing anywhere:
    ``DO_NOT_TRACK`` is set before evidently is imported.
    """
    frames = [_rows(reference), _rows(current)]
    for name, rows in zip(("reference", "current"), frames, strict=True):
        if len(rows) < 2:
            raise ValueError(
                f"evidently compares scored outcomes; the {name} cohort needs at least 2 of them, "
                f"has {len(rows)}"
            )
    os.environ["DO_NOT_TRACK"] = "1"
    import pandas as pd
    from evidently import DataDefinition, Dataset, Report
    from evidently.presets import DataDriftPreset

    definition = DataDefinition(numerical_columns=list(COLUMNS))
    before, after = (
        Dataset.from_pandas(pd.DataFrame(rows, columns=list(COLUMNS)), data_definition=definition)
        for rows in frames
    )
    with warnings.catch_warnings():
        # A column that never varies (say, unknown prompt lengths) divides by its zero spread.
        warnings.simplefilter("ignore", RuntimeWarning)
        snapshot = Report([DataDriftPreset()]).run(after, before)
        html = snapshot.get_html_str(as_iframe=False)
    return DataDrift(tuple(_columns(snapshot.dict())), html)


def _rows(outcomes: Sequence[Outcome]) -> list[tuple[float, int, int]]:
    return [
        (o.forecast.score, o.output_tokens, o.prompt_tokens)
        for o in outcomes
        if o.forecast is not None
    ]


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
