"""What ``bench sim`` prints and draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from serving.cli.bench import options, plots

if TYPE_CHECKING:
    from engine.comparison import Compared, Spread
    from engine.scenarios import Scenario


def title(scenario: Scenario, lengths: str, slots: int, seeds: int, ranker: bool) -> str:
    """What was simulated, in a line."""
    known = "" if ranker else f", forecasts {scenario.forecasts}"
    if not ranker and scenario.forecasts in ("noise", "overconfident"):
        known += f" of tau {scenario.tau:g}"
    return (
        f"{scenario.requests:,} requests, {scenario.arrivals}, lengths of {lengths}{known}, "
        f"{slots} slots, {options.plural(seeds, 'seed')}"
    )


def show(rows: Sequence[Compared], title: str) -> None:
    """Ratios to fcfs, then what was measured."""
    from serving.cli.console import print_table

    columns = ["policy", "per-token gain", "mean E2EL", "p99 E2EL", "p90 E2EL", "p99 TTFT"]
    columns += ["SJF eff."]
    print_table(
        columns,
        [
            [
                row.policy,
                options.spread(row.per_token_gain, unit="x"),
                options.spread(row.mean_e2el),
                options.spread(row.p99_e2el),
                *(f"{each.median:.2f}" for each in (row.p90_e2el, row.p99_ttft)),
                _number(row.efficiency_e2el, 2),
            ]
            for row in rows
        ],
        title=title,
        caption="Gain: mean E2EL per output token, fcfs / policy. Latencies: policy / fcfs. SJF "
        "efficiency: share of what sjf gains in mean E2EL. Median over seeds (p10-p90).",
    )
    shown = [(name, read) for name, read in _MEASURED if any(read(row) != "-" for row in rows)]
    print_table(
        ["policy", *(name for name, _ in shown)],
        [[row.policy, *(read(row) for _, read in shown)] for row in rows],
        title=f"Seconds, mean/p99; fcfs busy {rows[0].utilisation.median:.0%} of the time",
        caption="Max wait: the longest wait of a request for a token. Queue: requests waiting, "
        "mean/peak. Wasted: tokens recomputed or swapped over generated ones. Medians over seeds.",
    )


def _latency(name: str) -> Callable[[Compared], str]:
    def read(row: Compared) -> str:
        mean, p99 = (row.measures[f"{what}_{name}"].median for what in ("mean", "p99"))
        return f"{mean:.3g}/{p99:.3g}"

    return read


def _plain(name: str, digits: int = 0) -> Callable[[Compared], str]:
    def read(row: Compared) -> str:
        value = row.measures[name].median
        return "-" if not value or math.isnan(value) else f"{value:,.{digits}f}"

    return read


def _goodput(row: Compared) -> str:
    value, met = row.measures["goodput"].median, row.measures["attainment"].median
    return "-" if math.isnan(value) else f"{value:.2f}/s ({met:.0%})"


def _wasted(row: Compared) -> str:
    measures = row.measures
    moved = measures["recomputed_tokens"].median + measures["swapped_tokens"].median
    generated = measures["output_throughput"].median * measures["duration"].median
    return f"{moved / generated:.1%}" if moved else "-"


def _queue(row: Compared) -> str:
    return f"{row.mean_waiting.median:,.1f}/{row.peak_waiting.median:,.0f}"


_MEASURED: tuple[tuple[str, Callable[[Compared], str]], ...] = (
    ("TTFT", _latency("ttft")),
    ("TPOT", _latency("tpot")),
    ("E2EL", _latency("e2el")),
    ("max wait", _latency("max_waiting")),
    ("goodput", _goodput),
    ("queue", _queue),
    ("preempted", _plain("preemptions")),
    ("wasted", _wasted),
    ("Jain", _plain("jain", 3)),
)


def _number(value: Spread, digits: int) -> str:
    return "-" if math.isnan(value.median) else f"{value.median:.{digits}f}"


def write_plot(path: Path, rows: Sequence[Compared], title: str) -> None:
    """Gain against tail, and the ratios of each policy."""
    words = "; ".join(
        f"{row.policy} gains {row.per_token_gain.median:.2f} at p99 {row.p99_e2el.median:.2f}"
        for row in rows
    )
    frontier = plots.Figure(
        "Gain against tail",
        words,
        plots.Axis("p99 E2EL, policy / fcfs"),
        plots.Axis("per-token gain, fcfs / policy", log=True),
        [
            plots.Series(
                row.policy,
                [row.p99_e2el.median],
                [row.per_token_gain.median],
                [row.per_token_gain.p10],
                [row.per_token_gain.p90],
                labels=[row.policy],
                lines=False,
            )
            for row in rows
        ],
        caption="Up and to the left is better. Medians over seeds, 10th to 90th percentile.",
        level=1.0,
        upright=1.0,
    )
    names = [row.policy for row in rows]
    ratios = (("mean E2EL", "mean_e2el"), ("p90 E2EL", "p90_e2el"), ("p99 E2EL", "p99_e2el"))
    bars = plots.Figure(
        "End-to-end latency",
        "; ".join(f"{row.policy} mean {row.mean_e2el.median:.2f}" for row in rows),
        plots.Axis(""),
        plots.Axis("policy / fcfs"),
        [
            plots.Series(
                label,
                names,
                [getattr(row, what).median for row in rows],
                [getattr(row, what).p10 for row in rows],
                [getattr(row, what).p90 for row in rows],
            )
            for label, what in ratios
        ],
        level=1.0,
        bars=True,
        height=340,
    )
    plots.write(path, "Policies compared", title, [frontier, bars])
