"""What a dashboard shows, as one value ready for JSON: the contract between monitor and page.

``MonitoredStore.board()`` gives a :class:`Board`; ``board.as_dict()`` is what the page gets. The
figures it is made of stand in ``drift.figures``. A field that is not known is ``None`` and not left
out. New fields may come; none changes its meaning within one ``schema``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from drift.figures import (
    Band,
    Density,
    Faults,
    Interval,
    Level,
    Point,
    ReporterRow,
    Series,
    Shift,
    Version,
    Worth,
)

__all__ = [
    "SCHEMA",
    "Band",
    "Board",
    "Density",
    "Faults",
    "Headline",
    "Interval",
    "Level",
    "ModelBoard",
    "Point",
    "ReporterRow",
    "Series",
    "Shift",
    "Version",
    "Worth",
]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Headline:
    """The worst state there is, and what it means in words. ``served_model`` is empty when there
    are no outcomes at all; ``state`` then is ``ok``."""

    state: str
    served_model: str
    words: str
    advice: str


@dataclass(frozen=True, slots=True)
class ModelBoard:
    """One served model with the ranker version that it uses now.

    ``overall`` is the version as a whole. ``slices``: by lane and tenant, most harm first; empty
    when all traffic is one slice. ``history``: oldest first. ``worth``: replays, oldest first.
    ``open``: requests known to be under way; ``held``: outcomes waiting for their place in order.
    """

    served_model: str
    ranker: str
    version: str
    state: str
    meaning: str
    advice: str
    overall: Series
    slices: tuple[Series, ...]
    history: tuple[Point, ...]
    worth: tuple[Worth, ...]
    calibration: tuple[Level, ...]
    bands: tuple[Band, ...]
    density: Density
    shifts: tuple[Shift, ...]
    versions: tuple[Version, ...]
    open: int
    held: int


@dataclass(frozen=True, slots=True)
class Board:
    """Everything, at ``at`` (Unix seconds). ``models``: the worst first."""

    schema: int
    at: float
    headline: Headline
    models: tuple[ModelBoard, ...]
    reporters: tuple[ReporterRow, ...]
    faults: Faults

    def as_dict(self) -> dict[str, Any]:
        """Nested dictionaries and lists of strings, numbers and ``None``: strict JSON."""
        return asdict(self)
