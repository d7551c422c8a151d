"""Latency distributions by policy, and the table that sums them up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from drift.report.data import PolicyRun, Table
from drift.report.style import Json, axis, layout, policy_style, seconds, seconds_ticks
from engine.metrics import Latency, Summary, Timing, summarise

#: A distribution function is drawn at no more points than this; steps below a pixel are lost.
_POINTS = 400
_MARGIN = {"l": 52, "r": 14, "t": 10, "b": 26}


@dataclass(frozen=True, slots=True)
class Measure:
    """One latency: its name, what it means, how a timing and a summary give it in seconds."""

    name: str
    meaning: str
    of_timing: Callable[[Timing], float]
    of_summary: Callable[[Summary], Latency]


MEASURES = (
    Measure(
        "Per-token latency",
        "end-to-end latency divided by output tokens",
        lambda t: t.per_token,
        lambda s: s.per_token,
    ),
    Measure("TTFT", "time to first token", lambda t: t.ttft, lambda s: s.ttft),
    Measure("E2EL", "end-to-end latency", lambda t: t.e2el, lambda s: s.e2el),
)


def figure(runs: Sequence[PolicyRun], measure: Measure) -> Json:
    """Share of requests served within a time, one line a policy, logarithmic time."""
    data = []
    everything = [measure.of_timing(t) for run in runs for t in run.timings]
    low = max(min(everything), 1e-6)
    high = max(max(everything), low * 10)
    for i, run in enumerate(runs):
        values = np.sort([measure.of_timing(t) for t in run.timings])
        share = np.arange(1, len(values) + 1) / len(values)
        if len(values) > _POINTS:
            pick = np.unique(np.linspace(0, len(values) - 1, _POINTS).round().astype(int))
            values, share = values[pick], share[pick]
        colour, dash = policy_style(run.policy, i)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": run.policy,
                "x": [float(f"{max(v, low):.5g}") for v in values],
                "y": [round(float(v), 4) for v in share],
                "line": {"color": colour, "dash": dash, "width": 2.5, "shape": "hv"},
                "text": [seconds(float(v)) for v in values],
                "hovertemplate": f"{run.policy}: %{{y:.0%}} within %{{text}}<extra></extra>",
            }
        )
    ticks, texts = seconds_ticks(low, high)
    x = axis("", type="log", tickvals=ticks, ticktext=texts)
    x["range"] = [float(np.log10(low)) - 0.05, float(np.log10(high)) + 0.05]
    y = axis("share of requests", range=[0, 1.02], tickformat=".0%")
    return {"data": data, "layout": layout(xaxis=x, yaxis=y, height=250, margin=_MARGIN)}


def describe(runs: Sequence[PolicyRun], measure: Measure) -> str:
    """The figure in words, for readers who don't see it."""
    parts = []
    for run in runs:
        latency = Latency.of([measure.of_timing(t) for t in run.timings])
        parts.append(f"{run.policy} median {seconds(latency.p50)}, p99 {seconds(latency.p99)}")
    return f"Distribution of {measure.name} ({measure.meaning}): {'; '.join(parts)}."


def table(runs: Sequence[PolicyRun]) -> Table:
    """Latencies as rows, policies as columns; the others carry their ratio to the first."""
    sums = [summarise(run.timings) for run in runs]
    rows: list[tuple[str, ...]] = []
    for measure in MEASURES:
        for part in ("mean", "p50", "p99"):
            values = [getattr(measure.of_summary(s), part) for s in sums]
            rows.append((f"{measure.name}, {part}", *_with_ratio(values)))
    rows.append(("Requests", *(f"{s.requests:,}" for s in sums)))
    rows.append(("Output tokens", *(f"{s.output_tokens:,}" for s in sums)))
    rows.append(("Throughput, tokens/s", *(f"{s.throughput:,.0f}" for s in sums)))
    for label, field, form in (
        ("Queue depth, mean", "mean_waiting", "{:,.1f}"),
        ("Queue depth, peak", "peak_waiting", "{:,}"),
        ("Utilisation", "utilisation", "{:.0%}"),
        ("Kendall tau-b", "tau", "{:.2f}"),
    ):
        found = [getattr(run, field) for run in runs]
        if any(value is not None for value in found):
            rows.append((label, *("–" if v is None else form.format(v) for v in found)))
    return Table("Policies compared", ("", *(run.policy for run in runs)), tuple(rows))


def ratio(values: Sequence[float], index: int) -> float:
    """How many times lower than the first; NaN when undefined."""
    return values[0] / values[index] if values[index] > 0 else float("nan")


def _with_ratio(values: Sequence[float]) -> list[str]:
    cells = [seconds(values[0])]
    for value in values[1:]:
        change = value / values[0] if values[0] > 0 else float("nan")
        cells.append(f"{seconds(value)}\t×{change:.2f}")
    return cells
