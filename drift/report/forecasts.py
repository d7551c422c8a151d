"""Forecast against what came true, and whether its quantiles mean what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift.cohorts import coverage, tau_of
from drift.report.style import Json, axis, layout
from ranker.types import Outcome

#: Points drawn at most: enough to see the density, few enough for a phone.
_POINTS = 1200
_BINS = 12


@dataclass(frozen=True, slots=True)
class Bin:
    """Outcomes with like forecasts: mean log forecast median, p10 and p90 of forecast and truth."""

    median: float
    forecast_p10: float
    forecast_p90: float
    realised_p10: float
    realised_p50: float
    realised_p90: float


def scored(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [o for o in outcomes if o.forecast is not None and o.output_tokens > 0]


def bins(outcomes: Sequence[Outcome], count: int = _BINS) -> list[Bin]:
    """Equal shares of ``outcomes`` by forecast median; lower bounds count as they stand."""
    rows = sorted(scored(outcomes), key=lambda o: o.forecast.median if o.forecast else 0.0)
    out = []
    for part in np.array_split(np.arange(len(rows)), min(count, max(1, len(rows) // 20))):
        group = [rows[int(i)] for i in part]
        forecasts = [o.forecast for o in group if o.forecast is not None]
        if not forecasts:
            continue
        tokens = [o.output_tokens for o in group]
        p10, p50, p90 = (float(v) for v in np.percentile(tokens, [10, 50, 90]))
        out.append(
            Bin(
                _middle([f.median for f in forecasts]),
                _middle([f.quantile(0.1) for f in forecasts]),
                _middle([f.quantile(0.9) for f in forecasts]),
                p10,
                p50,
                p90,
            )
        )
    return out


def figure(outcomes: Sequence[Outcome]) -> Json:
    """Realised tokens over forecast median, both logarithmic, with what the forecast allowed."""
    rows = scored(outcomes)
    step = max(1, -(-len(rows) // _POINTS))
    shown = rows[::step]
    groups = bins(outcomes)
    x = [g.median for g in groups]
    data: list[Json] = [
        _line(x, [g.forecast_p10 for g in groups], "forecast p10", "@accent", 0),
        _line(x, [g.forecast_p90 for g in groups], "forecast p10–p90", "@accent", 0)
        | {"fill": "tonexty", "fillcolor": "@accentband"},
    ]
    for censored, name, symbol in ((False, "answer", "circle"), (True, "cut off", "triangle-up")):
        part = [o for o in shown if o.finish_reason.censored is censored]
        if part:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [round(o.forecast.median, 1) for o in part if o.forecast],
                    "y": [o.output_tokens for o in part],
                    "marker": {
                        "size": 4.5 if not censored else 6,
                        "symbol": symbol + ("-open" if censored else ""),
                        "color": "@points",
                        "opacity": 0.45,
                    },
                    "hovertemplate": "forecast %{x:,.0f}, realised %{y:,}<extra></extra>",
                }
            )
    ends = [min(x, default=1.0), max(x, default=1.0)]
    data += [
        _line(ends, ends, "as forecast", "@muted", 1.5) | {"line": _dash("@muted")},
        _line(x, [g.realised_p50 for g in groups], "realised median", "@realised", 2.5)
        | {"mode": "lines+markers", "marker": {"size": 7, "color": "@realised"}},
    ]
    tokens = [float(o.output_tokens) for o in shown]
    allx = [o.forecast.median for o in shown if o.forecast]
    return {
        "data": data,
        "layout": layout(
            xaxis=_log_axis("forecast median, tokens", allx),
            yaxis=_log_axis("realised tokens", tokens),
            height=400,
        ),
    }


def calibration(outcomes: Sequence[Outcome]) -> Json:
    """Share of answers at or below each forecast quantile, over the share that was promised."""
    rows = scored(outcomes)
    forecast = rows[0].forecast
    assert forecast is not None
    levels = list(forecast.levels)
    observed = [coverage(rows, p) for p in levels]
    data = [
        _line([0.0, 1.0], [0.0, 1.0], "exact", "@muted", 1.5) | {"line": _dash("@muted")},
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "observed",
            "x": levels,
            # Unknown (NaN) where every answer was cut off below its quantile.
            "y": [None if math.isnan(v) else round(v, 4) for v in observed],
            "line": {"color": "@realised", "width": 2.5},
            "marker": {"size": 7, "color": "@realised"},
            "hovertemplate": "promised %{x:.0%}, observed %{y:.1%}<extra></extra>",
        },
    ]
    percent: Json = {"range": [0, 1.02], "tickformat": ".0%"}
    return {
        "data": data,
        "layout": layout(
            xaxis=axis("promised share", **percent),
            yaxis=axis("observed share", **percent),
            height=400,
        ),
    }


def describe(outcomes: Sequence[Outcome]) -> str:
    """Both figures in words."""
    rows = scored(outcomes)
    tau = tau_of(rows)
    cut = sum(o.finish_reason.censored for o in rows)
    text = f"Forecast median against realised length of {len(rows):,} answers: Kendall tau-b "
    if tau.defined:
        text += f"{tau.value:.2f}, 95% interval {tau.low:.2f} to {tau.high:.2f}."
    else:
        text += "unknown, as no order of two lengths is known."
    for level, name in ((0.5, "median"), (0.9, "p90")):
        share = coverage(rows, level)
        if not math.isnan(share):
            text += f" {share:.0%} stayed within their forecast {name}."
    return text + (f" {cut:,} were cut off: lower bounds." if cut else "")


def _middle(values: Sequence[float]) -> float:
    """Geometric mean: lengths are drawn on a logarithmic scale."""
    logs: NDArray[np.float64] = np.log(np.maximum(np.asarray(values, dtype=np.float64), 0.5))
    return float(f"{float(np.exp(logs.mean())):.5g}")


def _line(x: Sequence[float], y: Sequence[float], name: str, colour: str, width: float) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": width},
        "hoverinfo": "skip",
    }


def _dash(colour: str) -> Json:
    return {"color": colour, "width": 1.5, "dash": "dash"}


def _log_axis(title: str, values: Sequence[float]) -> Json:
    low, high = max(1.0, min(values, default=1.0)), max(values, default=10.0)
    ticks = [v for p in range(6) for v in (10**p, 3 * 10**p) if low * 0.7 <= v <= high * 1.4]
    made = axis(title, type="log", tickvals=ticks, ticktext=[f"{t:,}" for t in ticks])
    made["range"] = [float(np.log10(low)) - 0.05, float(np.log10(max(high, low * 2))) + 0.05]
    return made
