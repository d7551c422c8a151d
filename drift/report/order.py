"""How well forecasts order over time, and the chart that watches it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from drift.events import Event
from drift.report.data import DriftSection
from drift.report.style import Json, axis, layout, level, note, upright
from drift.states import State
from drift.stream import Point

_WIDEST = 0.5
_STATES = {"warn": "@warn", "degraded": "@degraded", "fcfs": "@fallback"}


def tau_figure(section: DriftSection) -> Json:
    """tau-b of the window with its interval, the reference, and the states over time."""
    # The first looks are at a handful of outcomes: their intervals would flatten all the rest.
    points = [p for p in section.points if p.high - p.low < _WIDEST]
    x = [p.outcome for p in points]
    data = [
        _line(x, [p.low for p in points], "@accent", 0) | {"hoverinfo": "skip"},
        _line(x, [p.high for p in points], "@accent", 0)
        | {"fill": "tonexty", "fillcolor": "@accentband", "hoverinfo": "skip"},
        _line(x, [p.tau for p in points], "@accent", 2.5)
        | {
            "customdata": [[round(p.low, 3), round(p.high, 3), str(p.state)] for p in points],
            "hovertemplate": (
                "outcome %{x:,}: tau-b %{y:.2f} [%{customdata[0]:.2f}, %{customdata[1]:.2f}], "
                "%{customdata[2]}<extra></extra>"
            ),
        },
    ]
    shapes, notes = _context(section)
    if section.reference is not None and not math.isnan(section.reference.tau.value):
        for value, text, dash in (
            (section.reference.tau.value, "reference", "dash"),
            (section.reference.allowance_tau, "allowance", "dot"),
        ):
            shapes.append(level(value, "@muted", dash))
            notes.append(note(text, 0.006, value, xref="paper", xanchor="left", yanchor="bottom"))
    lows = [p.low for p in points] + [0.0]
    highs = [p.high for p in points] + [0.3]
    bottom, top = max(-1.0, min(lows) - 0.04), min(1.0, max(highs) + 0.1)
    return {
        "data": data,
        "layout": layout(
            xaxis=_outcomes(section),
            yaxis=axis("Kendall tau-b", range=[round(bottom, 3), round(top, 3)]),
            shapes=shapes,
            annotations=notes,
            height=360,
        ),
    }


def chart_figure(section: DriftSection) -> Json:
    """Height of the concordance chart and the limits that it crosses."""
    points = [p for p in section.points if not math.isnan(p.chart)]
    data = [
        _line([p.outcome for p in points], [round(p.chart, 3) for p in points], "@accent", 2)
        | {"hovertemplate": "outcome %{x:,}: chart %{y:.1f}<extra></extra>"}
    ]
    shapes, notes = _context(section, labels=False)
    top = max((p.chart for p in points), default=1.0)
    if (reference := section.reference) is not None:
        arl = reference.calibration.arl
        for limit, name, colour, every in (
            (reference.warn_limit, "warn", "@warn", arl[0]),
            (reference.degraded_limit, "degraded", "@degraded", arl[1]),
        ):
            shapes.append(level(limit, colour, "dash"))
            text = f"{name}: one false alarm in {every:,.0f}"
            notes.append(note(text, 0.006, limit, xref="paper", xanchor="left", yanchor="bottom"))
            top = max(top, limit)
    return {
        "data": data,
        "layout": layout(
            xaxis=_outcomes(section),
            yaxis=axis("chart height", range=[0, top * 1.16]),
            shapes=shapes,
            annotations=notes,
            height=240,
        ),
    }


def describe(section: DriftSection) -> str:
    """The figures in words."""
    name = section.key.served_model
    last = section.points[-1] if section.points else None
    text = f"Order of forecasts for {name} over {last.outcome if last else 0:,} outcomes. "
    if section.reference is not None:
        tau = section.reference.tau
        text += f"Reference tau-b {tau.value:.2f} over {section.reference.outcomes:,} outcomes. "
    moves = [e for e in section.events if e.kind == "state"]
    for event in moves:
        text += f"At outcome {event.outcome:,}: {event.previous} to {event.state}. "
    if last is not None and not math.isnan(last.tau):
        text += f"At the end tau-b is {last.tau:.2f} [{last.low:.2f}, {last.high:.2f}]"
        text += f" and the state is {section.state}."
    return text


def _context(section: DriftSection, labels: bool = True) -> tuple[list[Json], list[Json]]:
    """Bands for states, lines for marks and alerts."""
    shapes = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": start,
            "x1": end,
            "y0": 0,
            "y1": 1,
            "fillcolor": _STATES[str(state)],
            "opacity": 0.16,
            "line": {"width": 0},
            "layer": "below",
        }
        for start, end, state in _spans(section)
        if state is not State.OK
    ]
    notes: list[Json] = []
    for outcome, text in section.marks:
        shapes.append(upright(outcome, "@text", "dot"))
        if labels:
            place: Json = {"yref": "paper", "xanchor": "right", "yanchor": "top", "xshift": -4}
            notes.append(note(text, outcome, 0.99, **place, font={"size": 12, "color": "@text"}))
    alert = next((e for e in section.events if e.alert), None)
    if alert is not None:
        shapes.append(upright(alert.outcome, "@degraded", "solid"))
        if labels:
            notes.append(_alert(alert, section))
    return shapes, notes


def _alert(event: Event, section: DriftSection) -> Json:
    last = section.points[-1].outcome if section.points else event.outcome
    left = event.outcome > 0.7 * last
    return note(
        f"<b>alert: {event.state}</b>",
        event.outcome,
        0.88 if section.marks else 0.99,
        yref="paper",
        xanchor="right" if left else "left",
        yanchor="top",
        xshift=-4 if left else 4,
        font={"size": 12, "color": "@degraded"},
    )


def _spans(section: DriftSection) -> list[tuple[int, int, State]]:
    spans: list[tuple[int, int, State]] = []
    previous: Point | None = None
    for point in section.points:
        if previous is not None and spans and point.state == spans[-1][2]:
            spans[-1] = (spans[-1][0], point.outcome, point.state)
        else:
            start = point.outcome
            if spans:
                spans[-1] = (spans[-1][0], start, spans[-1][2])
            spans.append((start, start, point.state))
        previous = point
    return spans


def _outcomes(section: DriftSection) -> Json:
    first = section.points[0].outcome if section.points else 0
    last = section.points[-1].outcome if section.points else 1
    return axis("outcomes, in order of arrival", range=[first, last], tickformat=",", nticks=7)


def _line(x: Sequence[float], y: Sequence[float], colour: str, width: float) -> Json:
    rounded = [None if math.isnan(v) else round(v, 4) for v in y]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": rounded,
        "line": {"color": colour, "width": width},
    }
