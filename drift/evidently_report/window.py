"""One window of outcomes against the reference: a report with tests."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from drift.evidently_report.frames import COLUMNS, WITHIN_P50, WITHIN_P90, axes_of, dataset
from drift.tau import kendall_tau
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class WindowConfig:
    """``seconds``: how long a window is, by arrival; it begins at a multiple of that. ``least`` and
    ``most``: scored outcomes below which it says too little, and beyond which the rest is left out.
    ``recover``: share of the reference tau-b that its tau-b must reach. ``slack``: by how much
    coverage of p50 and p90 may be off.
    """

    seconds: float = 3600.0
    least: int = 200
    most: int = 5_000
    recover: float = 0.7
    slack: float = 0.1

    def __post_init__(self) -> None:
        if not 1.0 <= self.seconds < float("inf"):
            raise ValueError(f"window.seconds must be >= 1, got {self.seconds}")
        if not 2 <= self.least <= self.most:
            raise ValueError("window.least must lie between 2 and window.most")
        if not 0.0 < self.recover <= 1.0:
            raise ValueError(f"window.recover must lie in (0, 1], got {self.recover}")
        if not 0.0 < self.slack < 0.5:
            raise ValueError(f"window.slack must lie inside (0, 0.5), got {self.slack}")


@dataclass(frozen=True, slots=True)
class Window:
    """Scored outcomes of one ranker version that arrived from ``start`` on, Unix seconds."""

    ranker: str
    version: str
    start: float
    outcomes: tuple[Outcome, ...]


def windows(outcomes: Iterable[Outcome], config: WindowConfig) -> list[Window]:
    """Windows of ``outcomes`` (by ascending arrival) that are over, oldest first.

    The last one is left out, because it may still be filling; so is the first one of all, because
    it may be cut off.
    """
    found: dict[tuple[float, str, str], list[Outcome]] = {}
    starts: set[float] = set()
    for o in outcomes:
        start = o.arrival // config.seconds * config.seconds
        starts.add(start)
        if o.forecast is not None:
            key = (start, o.forecast.ranker, o.forecast.version)
            kept = found.setdefault(key, [])
            if len(kept) < config.most:
                kept.append(o)
    if not starts:
        return []
    edges = (min(starts), max(starts))
    return [
        Window(ranker, version, start, tuple(kept))
        for (start, ranker, version), kept in sorted(found.items(), key=lambda item: item[0])
        if start not in edges and len(kept) >= config.least
    ]


def report(window: Window, reference: Sequence[Outcome], config: WindowConfig) -> Any:
    """Evidently's snapshot of ``window``: tau-b, coverage, distributions, shift of meaning where
    there are embeddings, and what passed.

    Raises ``ValueError`` when the reference or the window has no decided order.
    """
    from evidently import Report
    from evidently.metrics import MeanValue, RowCount
    from evidently.presets import DataDriftPreset
    from evidently.tests import gte, lte

    from drift.evidently_report.meaning import EmbeddingShift
    from drift.evidently_report.metric import KendallTau

    scored = [(o.forecast.score, o) for o in reference if o.forecast is not None]
    before = kendall_tau(
        [score for score, _ in scored],
        [o.output_tokens for _, o in scored],
        [o.finish_reason.censored for _, o in scored],
    )
    if not before.defined:
        raise ValueError("the reference has no pair of outcomes whose order in length is known")

    def near(level: float) -> list[Any]:
        return [gte(level - config.slack), lte(level + config.slack)]

    metrics = [
        KendallTau(tests=[gte(round(config.recover * before.value, 3))]),
        MeanValue(column=WITHIN_P50, tests=near(0.5)),
        MeanValue(column=WITHIN_P90, tests=near(0.9)),
        RowCount(tests=[gte(config.least)]),
        DataDriftPreset(columns=list(COLUMNS)),
    ]
    axes = axes_of(reference, window.outcomes)
    if axes:
        metrics.append(EmbeddingShift(axes=axes))
    with warnings.catch_warnings():
        # A column that never varies (say, unknown prompt lengths) divides by its zero spread.
        warnings.simplefilter("ignore", RuntimeWarning)
        return Report(metrics).run(
            dataset(window.outcomes, "current", axes),
            dataset(reference, "reference", axes),
            timestamp=datetime.fromtimestamp(window.start, UTC).replace(tzinfo=None),
            metadata={"ranker": window.ranker, "version": window.version},
            tags=[f"version {window.version}"],
            name=f"{window.ranker} {window.version}",
        )
