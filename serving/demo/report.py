"""Step 6: one page with everything that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from drift.efficiency import efficiency
from drift.report import EfficiencyRow, PolicyRun, ReportData, Table
from serving.burst import table as burst_table
from serving.burst.client import Lengths
from serving.burst.session import Comparison
from serving.demo import rankers
from serving.demo.config import DemoConfig
from serving.demo.drift import Traffic, Watched
from training.pipeline import Result


def build(
    config: DemoConfig,
    results: dict[str, Result],
    flat: str,
    comparison: Comparison,
    traffic: Sequence[Traffic],
    watched: Watched,
    now: datetime,
) -> ReportData:
    """The demo's numbers as a page. ``flat``: the sentence about the bundled model's own lengths;
    ``traffic``: the usual, then the different."""
    sampled = "answers run to their recorded length"
    if config.session.sampling.lengths is Lengths.OWN:
        sampled = "the model stops by itself"
    side = "side by side" if config.session.together else "in turns"
    return ReportData(
        title="shortfirst demo",
        subtitle=(
            f"{config.session.burst.requests} held-out prompts in "
            f"{config.session.burst.spread_s:g} s, {sampled}, policies {side}"
        ),
        created=f"{now:%Y-%m-%d %H:%M} UTC",
        runs=tuple(_run(comparison, policy) for policy in comparison.results),
        outcomes=watched.replayed.before,
        drift=(watched.replayed.section,),
        efficiency=_efficiency(comparison, watched),
        tables=(
            *(_evaluation(result) for result in results.values()),
            _burst(comparison),
            _traffic(traffic),
        ),
        notes=(
            *burst_table.facts(comparison),
            flat,
        ),
    )


def _run(comparison: Comparison, policy: str) -> PolicyRun:
    result = comparison.results[policy]
    learned = policy != comparison.baseline.policy
    return PolicyRun(
        policy=policy,
        timings=tuple(result.timings),
        peak_waiting=result.queue.peak,
        mean_waiting=result.queue.mean,
        tau=comparison.tau.value if learned else None,
    )


def _efficiency(comparison: Comparison, watched: Watched) -> tuple[EfficiencyRow, ...]:
    rows = [
        EfficiencyRow(
            "burst",
            comparison.efficiency.e2el,
            comparison.efficiency.per_token,
            comparison.tau.value,
        )
    ]
    replayed = watched.replayed
    reference, window = replayed.snapshot.reference, replayed.snapshot.cohort.tau.value
    healthy = float("nan") if reference is None else reference.tau.value
    for label, outcomes, tau in (
        ("usual traffic", replayed.before, healthy),
        ("different traffic", replayed.window, window),
    ):
        worth = efficiency(outcomes)
        if worth is not None:
            rows.append(EfficiencyRow(label, worth.e2el, worth.per_token, tau))
    return tuple(rows)


def _evaluation(result: Result) -> Table:
    columns, rows = rankers.table(result.tables["test"])
    return Table(
        title=f"{result.name} version {result.version}, held-out prompts",
        columns=tuple(columns),
        rows=tuple(tuple(row) for row in rows),
        caption="Kendall tau-b against realised tokens, 95% bootstrap interval.",
    )


def _burst(comparison: Comparison) -> Table:
    columns, rows = burst_table.rows(comparison)
    return Table(
        title="The burst",
        columns=("measure", *columns[1:]),
        rows=tuple(tuple(row) for row in rows),
        caption="Ratios of means with a 95% bootstrap interval over requests.",
    )


def _traffic(traffic: Sequence[Traffic]) -> Table:
    return Table(
        title="Traffic the monitor saw",
        columns=("traffic", "requests", "tau-b", "95% interval"),
        rows=tuple(
            (t.what, f"{len(t.examples):,}", f"{t.tau.value:.2f}",
             f"{t.tau.low:.2f} to {t.tau.high:.2f}")
            for t in traffic
        ),
    )  # fmt: skip
