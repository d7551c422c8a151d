"""A folder that ``evidently ui --workspace`` opens: a project a served model, a report a window.

Written so that a crash leaves whole files: evidently reads every report when it starts, and one
half of one would stop it. Reports hold distributions and statistics, never single outcomes.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drift.evidently_report.window import Window, WindowConfig, report
from ranker.types import Outcome

_NAMESPACE = uuid.UUID("5b1f8a2e-0c3d-5e4f-9a6b-7c8d9e0f1a2b")


@dataclass(frozen=True, slots=True)
class Written:
    """``added``: reports that are new. ``removed``: old ones that made place for them. ``kept``:
    how many there are now."""

    project: str
    added: int
    removed: int
    kept: int


class Workspace:
    """``keep``: newest reports of each project that stay; a week of hours takes some 40 MB."""

    def __init__(self, path: Path, keep: int = 168) -> None:
        if keep < 1:
            raise ValueError(f"keep must be >= 1, got {keep}")
        self.path = path
        self._keep = keep

    def write(
        self,
        served_model: str,
        windows: Sequence[Window],
        references: Mapping[tuple[str, str], Sequence[Outcome]],
        config: WindowConfig,
    ) -> Written:
        """Report on the windows that have no report yet; drop the oldest reports beyond ``keep``.

        ``references``: outcomes to compare with, by ranker and version; windows of other versions,
        and those without any decided order, are left out. Raises ``OSError``.
        """
        project = uuid.uuid5(_NAMESPACE, served_model)
        self.path.mkdir(parents=True, exist_ok=True)
        folder = self.path / str(project) / "snapshots"
        added = 0
        with tempfile.TemporaryDirectory(prefix=".staging-", dir=self.path) as staging:
            if not folder.exists():
                _new_project(staging, project, served_model)
                os.replace(Path(staging, str(project)), folder.parent)
                folder.mkdir(exist_ok=True)
            oldest = self._oldest(folder)
            for window in windows[-self._keep :]:
                name = f"{window.ranker}\n{window.version}\n{window.start}\n{config.seconds}"
                target = folder / f"{uuid.uuid5(project, name)}.json"
                reference = references.get((window.ranker, window.version))
                if target.exists() or reference is None or window.start < oldest:
                    continue
                try:
                    snapshot = report(window, reference, config)
                except ValueError:  # no decided order: there is nothing to say of it
                    continue
                made = _stage(staging, project, snapshot)
                os.utime(made, (window.start, window.start))
                os.replace(made, target)
                added += 1
        reports = sorted(folder.glob("*.json"), key=lambda p: p.stat().st_mtime)
        for old in reports[: -self._keep]:
            old.unlink(missing_ok=True)
        return Written(
            str(project), added, max(0, len(reports) - self._keep), min(len(reports), self._keep)
        )

    def _oldest(self, folder: Path) -> float:
        """When the oldest report began once all places are taken: an older one would go at once."""
        times = sorted(p.stat().st_mtime for p in folder.glob("*.json"))
        return times[-self._keep] if len(times) >= self._keep else float("-inf")


def _stage(staging: str, project: uuid.UUID, snapshot: Any) -> Path:
    from evidently.ui.workspace import Workspace as EvidentlyWorkspace

    return Path(EvidentlyWorkspace(staging).add_run(project, snapshot).url)


def _new_project(staging: str, project: uuid.UUID, served_model: str) -> None:
    from evidently.sdk.models import PanelMetric, ProjectModel
    from evidently.sdk.panels import counter_panel, line_plot_panel
    from evidently.ui.workspace import Workspace as EvidentlyWorkspace

    made = EvidentlyWorkspace(staging).add_project(
        ProjectModel(
            id=project,
            name=served_model or "unnamed model",
            description="How well forecasts order answers by length, window by window.",
        )
    )

    def mean(column: str, legend: str) -> Any:
        return PanelMetric(metric="MeanValue", metric_labels={"column": column}, legend=legend)

    tau = [PanelMetric(metric="KendallTau", legend="tau-b")]
    for panel in (
        counter_panel("Kendall tau-b, last window", tau, "1 orders perfectly, 0 is FCFS", "half"),
        counter_panel("Scored outcomes", [PanelMetric(metric="RowCount")], "last window", "half"),
        line_plot_panel("Kendall tau-b of score and length", tau),
        line_plot_panel(
            "Answers within their forecast quantile (0.5 and 0.9 are right)",
            [mean("within_p50", "p50"), mean("within_p90", "p90")],
        ),
        line_plot_panel(
            "Distributions against the reference (p value, or distance)",
            [
                PanelMetric(metric="ValueDrift", metric_labels={"column": c}, legend=c)
                for c in ("score", "output_tokens", "prompt_tokens")
            ],
        ),
    ):
        made.dashboard.add_panel(panel)
