"""Colours by role: the page swaps roles for the colours of its theme when it draws."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

#: Policies keep one colour and one dash everywhere; dashes tell them apart without colour.
_POLICIES = {
    "fcfs": ("@fcfs", "dash"),
    "boost": ("@boost", "solid"),
    "sjf": ("@sjf", "dot"),
    "ranked": ("@ranked", "dashdot"),
}
_OTHERS = ("@other1", "@other2", "@other3")


def policy_style(policy: str, index: int) -> tuple[str, str]:
    """Colour role and dash of a policy; ``boost (fast)`` looks like ``boost``."""
    name = policy.split(" ")[0].split(":")[0]
    return _POLICIES.get(name, (_OTHERS[index % len(_OTHERS)], "longdash"))


def layout(**changes: Any) -> Json:
    """Layout shared by all figures: no drag, so that a finger scrolls the page."""
    base: Json = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, -apple-system, Segoe UI, sans-serif", "color": "@text"},
        "margin": {"l": 52, "r": 14, "t": 10, "b": 46},
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": "@surface",
            "bordercolor": "@line",
            "font": {"color": "@text", "size": 13},
        },
        "showlegend": False,
        "dragmode": False,
    }
    return base | changes


def axis(title: str, **changes: Any) -> Json:
    """An axis with a quiet grid."""
    base: Json = {
        "title": {"text": title, "font": {"size": 13, "color": "@muted"}, "standoff": 8},
        "gridcolor": "@grid",
        "linecolor": "@line",
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": "@line",
        "tickfont": {"size": 12, "color": "@muted"},
        "fixedrange": True,
        "automargin": True,
    }
    return base | changes


def note(text: str, x: float, y: float, **changes: Any) -> Json:
    """A label inside a figure."""
    base: Json = {
        "text": text,
        "x": x,
        "y": y,
        "showarrow": False,
        "font": {"size": 12, "color": "@muted"},
        "bgcolor": "@surfaceveil",
        "borderpad": 1,
    }
    return base | changes


def level(value: float, colour: str, dash: str) -> Json:
    """A line across a figure at height ``value``."""
    line = {"color": colour, "width": 1.5, "dash": dash}
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": value,
        "y1": value,
        "line": line,
    }


def upright(value: float, colour: str, dash: str) -> Json:
    """A line from bottom to top of a figure at ``value``."""
    line = {"color": colour, "width": 1.5, "dash": dash}
    return {
        "type": "line",
        "yref": "paper",
        "x0": value,
        "x1": value,
        "y0": 0,
        "y1": 1,
        "line": line,
    }


def seconds_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Decades between two positive numbers of seconds, written with their unit."""
    values: list[float] = []
    texts: list[str] = []
    for power in range(-6, 6):
        for step in (1, 3) if high / low < 200 else (1,):
            value = step * 10.0**power
            if low * 0.99 <= value <= high * 1.01:
                values.append(value)
                texts.append(seconds(value))
    return values, texts


def seconds(value: float) -> str:
    """Seconds for people: three digits, ms below one second."""
    if value != value:
        return "–"
    if value < 0.001:
        return f"{value * 1e6:.3g} µs"
    if value < 1.0:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if value < 1000.0 else f"{value:,.0f} s"
