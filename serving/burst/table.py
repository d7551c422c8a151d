"""A comparison as rows that a person reads, and as the numbers behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from engine.metrics import Latency, Timing
from serving.burst.compare import PolicyResult, Ratio, ratio
from serving.burst.session import DEADLINE_MS, Comparison

#: The headline: E2EL per output token, what length-aware schedulers report.
PER_TOKEN: Callable[[Timing], float] = lambda timing: timing.per_token  # noqa: E731

#: Share of requests without a forecast from which on the comparison is not one of policies.
_BLIND = 0.05

_LATENCIES: tuple[tuple[str, str, Callable[[Timing], float]], ...] = (
    ("per-token latency", "s/token", PER_TOKEN),
    ("TTFT", "s", lambda timing: timing.ttft),
    ("E2EL", "s", lambda timing: timing.e2el),
)


def rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Columns and rows: mean and p99 of each latency, then queue depth and throughput."""
    base, learned = comparison.baseline, comparison.learned
    table = []
    for name, unit, of in _LATENCIES:
        a, b = (Latency.of([of(t) for t in result.timings]) for result in (base, learned))
        table.append(
            [
                f"{name}, mean ({unit})",
                f"{a.mean:.3g}",
                f"{b.mean:.3g}",
                str(ratio(base, learned, of)),
            ]
        )
        table.append([f"{name}, p99", f"{a.p99:.3g}", f"{b.p99:.3g}", f"{a.p99 / b.p99:.2f}x"])
    table.append(["queue depth, mean", *(f"{r.queue.mean:.1f}" for r in (base, learned)), ""])
    table.append(["queue depth, peak", *(str(r.queue.peak) for r in (base, learned)), ""])
    table.append(["output tokens/s", *(f"{r.throughput:.0f}" for r in (base, learned)), ""])
    table.append(["unscored requests", *(f"{r.unscored:.0%}" for r in (base, learned)), ""])
    columns = ["", base.policy, learned.policy, f"{base.policy} / {learned.policy}"]
    return columns, table


def headline(comparison: Comparison) -> Ratio:
    """How many times lower the learned policy's mean per-token latency is."""
    return ratio(comparison.baseline, comparison.learned, PER_TOKEN)


def verdict(comparison: Comparison) -> str:
    """One sentence that does not hide a loss."""
    found, name = headline(comparison), comparison.learned.policy
    slower = losers(comparison)
    lost = f"{slower:.0%} of requests took longer end to end under {name}"
    if found.value <= 1.0:
        return f"{name} did NOT beat fcfs: mean per-token latency ratio {found}; {lost}."
    sure = "" if found.low > 1.0 else " (the interval includes 1: not certain)"
    return f"{name}: {found.value:.1f}x lower mean per-token latency than fcfs{sure}; {lost}."


def losers(comparison: Comparison) -> float:
    """Share of requests whose E2EL grew: somebody waits while the short ones go first."""
    pairs = zip(comparison.baseline.timings, comparison.learned.timings, strict=True)
    worse = [b.e2el > a.e2el for a, b in pairs]
    return sum(worse) / len(worse)


def facts(comparison: Comparison) -> list[str]:
    """What the table alone does not say."""
    tau, efficiency = comparison.tau, comparison.efficiency
    learned = comparison.learned
    blind = [
        f"{learned.unscored:.0%} of requests under {learned.policy} had no forecast: the rank "
        f"service did not give one within {DEADLINE_MS} ms, so this machine had too much to do "
        f"and the comparison says little"
    ]
    return [
        f"Kendall tau-b of forecast and length on this burst: {tau.value:.2f} "
        f"({tau.low:.2f} to {tau.high:.2f}), {comparison.ranker}",
        f"SJF efficiency, burst replayed in the simulator (1 = true lengths known, 0 = fcfs): "
        f"{efficiency.e2el:.2f} of mean E2EL, {efficiency.per_token:.2f} of per-token latency",
        *(blind if learned.unscored >= _BLIND else []),
    ]


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """The same as JSON-ready numbers."""

    def policy(result: PolicyResult) -> dict[str, Any]:
        summary = result.summary
        return {
            **{name: asdict(getattr(summary, name)) for name in ("per_token", "ttft", "e2el")},
            "tpot": asdict(summary.tpot),
            "requests": summary.requests,
            "output_tokens": summary.output_tokens,
            "tokens_per_second": result.throughput,
            "queue_depth": asdict(result.queue),
            "unscored": result.unscored,
            "preemptions": result.preemptions,
        }

    return {
        "policies": {name: policy(result) for name, result in comparison.results.items()},
        "ratios": {
            name: asdict(ratio(comparison.baseline, comparison.learned, of))
            for name, _, of in _LATENCIES
        },
        "slower_share": losers(comparison),
        "tau_b": asdict(comparison.tau),
        "sjf_efficiency": {
            "e2el": comparison.efficiency.e2el,
            "per_token": comparison.efficiency.per_token,
        },
        "ranker": comparison.ranker,
    }
