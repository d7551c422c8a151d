"""What the order of forecasts is worth, between first come first served and an oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence

from drift.report.data import EfficiencyRow
from drift.report.style import Json, axis, layout, note, upright


def figure(rows: Sequence[EfficiencyRow]) -> Json:
    """SJF efficiency between FCFS (0) and an oracle (1), one line a cohort."""
    labels = [_wrap(row.label) for row in rows][::-1]
    data = []
    for name, field, colour, symbol in (
        ("mean E2EL", "e2el", "@accent", "circle"),
        ("mean per-token latency", "per_token", "@realised", "diamond"),
    ):
        values = [getattr(row, field) for row in rows][::-1]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [None if math.isnan(v) else round(v, 4) for v in values],
                "y": labels,
                "marker": {"size": 13, "color": colour, "symbol": symbol},
                "hovertemplate": f"{name}: %{{x:.2f}}<extra></extra>",
            }
        )
    found = [v for r in rows for v in (r.e2el, r.per_token) if not math.isnan(v)]
    low = min([0.0, *found]) - 0.08
    shapes = [upright(0.0, "@muted", "dash"), upright(1.0, "@muted", "dash")]
    notes = [
        note("FCFS", 0.0, 1.0, yref="paper", yanchor="bottom"),
        note("oracle", 1.0, 1.0, yref="paper", yanchor="bottom"),
    ]
    return {
        "data": data,
        "layout": layout(
            xaxis=axis("SJF efficiency", range=[low, 1.08]),
            yaxis=axis(
                "",
                type="category",
                showline=False,
                ticks="",
                gridcolor="@grid",
                range=[-0.6, len(rows) - 0.4],
            ),
            shapes=shapes,
            annotations=notes,
            margin={"l": 20, "r": 14, "t": 26, "b": 46},
            height=110 + 62 * len(rows),
        ),
    }


def describe(rows: Sequence[EfficiencyRow]) -> str:
    parts = [
        f"{r.label}: {r.e2el:.2f} of mean E2EL, {r.per_token:.2f} of mean per-token latency"
        for r in rows
    ]
    return f"SJF efficiency, 1 an oracle and 0 FCFS. {'; '.join(parts)}."


def _wrap(text: str, width: int = 22) -> str:
    """Break a label into lines for a narrow axis."""
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}".strip()
        if len(joined) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = joined
    return "<br>".join(lines)
