"""Figures of the studies on one HTML page that needs nothing else, in the style of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from drift.report.data import Table

#: The option of every command that draws.
Option = Annotated[
    Path | None, typer.Option("--plot", help="Write the figures to this HTML file, 5 MB.")
]

_ROLES = ("@boost", "@sjf", "@ranked", "@other1", "@other2", "@other3", "@degraded", "@points")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "triangle-down", "cross")


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one colour. ``low`` and ``high`` are drawn as error bars in y.

    labels: written beside the points. lines: whether the points are joined.
    """

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    labels: Sequence[str] = ()
    lines: bool = True


@dataclass(frozen=True, slots=True)
class Axis:
    """Its title says the unit."""

    title: str
    log: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. ``words`` says what it shows, for readers who do not see it.

    level: a line across at this height, what the points are compared with; ``upright``: one from
    bottom to top. bars: bars side by side, one group for each x.
    """

    title: str
    words: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    caption: str = ""
    level: float | None = None
    upright: float | None = None
    bars: bool = False
    height: int = 420


def write(path: Path, title: str, subtitle: str, parts: Sequence[Figure | Table]) -> Path:
    """Write the page, figures and tables in the order given; return ``path``."""
    from drift.files import write_whole
    from drift.report import markup
    from drift.report.page import document

    figures = markup.Figures()
    body = []
    for part in parts:
        if isinstance(part, Figure):
            html = figures.place(spec(part), part.title, part.words, part.caption)
            body.append(f"<section>{html}</section>")
        else:
            body.append(markup.section(part.title, markup.table(part)))
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return write_whole(path, document(title, subtitle, now, "\n".join(body), figures))


def spec(figure: Figure) -> dict[str, Any]:
    """The figure as plotly reads it, colours by role."""
    from drift.report import style

    axes = {
        f"{name}axis": style.axis(axis.title, **({"type": "log"} if axis.log else {}))
        for name, axis in (("x", figure.x), ("y", figure.y))
    }
    shapes = []
    if figure.level is not None:
        shapes.append(style.level(figure.level, "@muted", "dash"))
    if figure.upright is not None:
        shapes.append(style.upright(figure.upright, "@muted", "dash"))
    legend = {"orientation": "h", "y": -0.2, "yanchor": "top", "font": {"color": "@text"}}
    return {
        "data": [_trace(series, i, figure.bars) for i, series in enumerate(figure.series)],
        "layout": style.layout(
            **axes,
            shapes=shapes,
            height=figure.height,
            showlegend=len(figure.series) > 1,
            legend=legend,
            barmode="group",
            margin={"l": 60, "r": 20, "t": 10, "b": 60},
        ),
    }


def _trace(series: Series, index: int, bars: bool) -> dict[str, Any]:
    colour = "@fcfs" if series.name.startswith("fcfs") else _ROLES[index % len(_ROLES)]
    trace: dict[str, Any] = {
        "name": series.name,
        "x": [_short(x) for x in series.x],
        "y": [_short(y) for y in series.y],
        "marker": {"color": colour, "size": 8, "symbol": _SYMBOLS[index % len(_SYMBOLS)]},
    }
    if bars:
        trace |= {"type": "bar", "marker": {"color": colour}}
    else:
        modes = ["markers", *(["lines"] if series.lines else []), *(["text"] * bool(series.labels))]
        dash = _DASHES[index % len(_DASHES)]
        trace |= {
            "type": "scatter",
            "mode": "+".join(modes),
            "line": {"color": colour, "width": 2.5, "dash": dash},
        }
    if series.labels:
        trace |= {
            "text": list(series.labels),
            "textposition": "outside" if bars else "top center",
            "textfont": {"size": 12, "color": "@text"},
        }
    if series.high:
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [_short(h - y) for h, y in zip(series.high, series.y, strict=True)],
            "arrayminus": [_short(y - low) for low, y in zip(series.low, series.y, strict=True)],
            "color": colour,
            "thickness": 1,
            "width": 3,
        }
    return trace


def _short(value: float | str) -> float | str | None:
    """Five digits are more than a screen shows; JSON has no NaN, and plotly skips null."""
    if isinstance(value, str):
        return value
    return None if value != value or abs(value) == float("inf") else float(f"{value:.5g}")
