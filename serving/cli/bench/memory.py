"""``shortfirst bench memory``: admission control and preemption when KV memory is short."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import lengths as sources
from serving.cli.bench import options, plots

if TYPE_CHECKING:
    from engine.bench.memory import MemoryStudy, Row
    from engine.bench.preemption import Method


def memory(
    profile: options.Profile = "llama3-8b-a100",
    lengths: sources.Option = "",
    share: Annotated[
        float, typer.Option(help="KV memory as a share of what full slots hold on average.")
    ] = 0.5,
    load: Annotated[
        float, typer.Option(help="Offered work over what the engine can do in that memory.")
    ] = 1.1,
    policy: Annotated[str, typer.Option(help="Order of the queue; see bench sim.")] = "fcfs",
    limits: Annotated[
        str, typer.Option(help="Static limits of concurrency to try, as shares of the slots.")
    ] = "0.3,0.4,0.5,0.55,0.6,0.65,0.7,0.8",
    levels: Annotated[
        str, typer.Option(help="Quantiles that predicted admission reckons with.")
    ] = "0.5,0.7,0.8,0.9",
    tau: options.Tau = 0.5,
    stall: Annotated[
        float,
        typer.Option(
            help="Goodput counts requests whose TPOT is at most so many times that of a full pool "
            "that never preempts."
        ),
    ] = 1.5,
    bandwidths: Annotated[
        str, typer.Option(help="Factors on the bandwidth to the host, for swap against recompute.")
    ] = "0.1,0.3,1,3,10",
    requests: Annotated[int, typer.Option(help="Requests per run.")] = 3000,
    seeds: options.Seeds = 5,
    jobs: options.Jobs = 0,
    plot: plots.Option = None,
    as_json: options.Json = False,
) -> None:
    """KV memory cut to half of the demand: is predicted admission as good as the best static limit?

    The best limit is found by sweep, which nobody can do while serving. With admission off the
    engine thrashes: it lets in whom it has to preempt, and computes the same tokens again. Below,
    swap against recompute, and the choice by cost against the better of the two.
    """
    from engine.bench import memory as admission
    from engine.bench import preemption
    from engine.bench.shortage import ShortageConfig
    from serving.cli.console import print_json, progress

    chosen, drawn = options.profile_of(profile), sources.read(lengths)
    numbers, workers = options.seeds_of(seeds), options.jobs_of(jobs)
    shortage = ShortageConfig(requests, share, load, policy, tau, stall)
    config = admission.MemoryConfig(
        shortage, options.numbers(limits, "--limits"), options.numbers(levels, "--levels")
    )
    swaps = preemption.PreemptionStudyConfig(shortage, options.numbers(bandwidths, "--bandwidths"))
    total = seeds * len(admission.variants(config, chosen))
    with progress("Admission", total, "runs") as bar:
        found = admission.study(config, drawn.lengths, chosen, numbers, workers, bar.update)
    with progress("Preemption", seeds * 3 * len(swaps.bandwidths), "runs") as bar:
        methods = preemption.study(swaps, drawn.lengths, chosen, numbers, workers, bar.update)
    if plot is not None:
        write_plot(plot, found, methods, f"{chosen.name}, lengths of {drawn.name}")
    if as_json:
        print_json(
            options.report(
                profile=chosen,
                lengths=drawn.name,
                config=config,
                seeds=seeds,
                admission=found,
                preemption=methods,
            )
        )
        return
    where = f"{chosen.name}, lengths of {drawn.name}"
    _print(found, methods, f"{where}, {options.plural(seeds, 'seed')}")


def _print(found: MemoryStudy, methods: list[Method], where: str) -> None:
    from engine.bench.preemption import worst
    from serving.cli.console import print_table

    columns = ["admission", "goodput", "/ best limit", "tokens/s", "wasted", "preempted"]
    columns += ["mean E2EL", "p99 E2EL", "p99 stall"]
    rows = [
        [
            f"{row.variant.name} *" if row.variant.name == found.best else row.variant.name,
            f"{row.goodput.median:.2f}",
            options.spread(row.relative),
            f"{row.throughput.median:,.0f}",
            f"{row.wasted.median:.1%}",
            f"{row.preemptions.median:,.0f}",
            *(f"{value.median:.1f}" for value in (row.mean_e2el, row.p99_e2el)),
            f"{row.p99_max_waiting.median:.1f}",
        ]
        for row in found.rows
    ]
    print_table(
        columns,
        rows,
        title=f"{found.pool:,} of {found.demand:,} tokens of KV memory, {found.rate:.1f} req/s; "
        f"{where}",
        caption="* best static limit. Goodput: requests/s with a TPOT of at most "
        f"{found.objective * 1e3:.0f} ms. Wasted: tokens recomputed or swapped, of those "
        "generated. Stall: the longest wait for a token. Seconds; medians over seeds (p10-p90).",
    )
    print_table(
        ["bandwidth", "method", "tokens/s / better", "mean E2EL / better", "wasted", "preempted"],
        [
            [
                f"{method.bandwidth:g}x",
                str(method.mode),
                options.spread(method.throughput, 3),
                options.spread(method.mean_e2el, 3),
                f"{method.wasted.median:.0%}",
                f"{method.preemptions.median:,.0f}",
            ]
            for method in methods
        ],
        title="Preemption with admission off: recompute, swap, or chosen by cost (auto)",
        caption="Against the better of recompute and swap on the same traffic.",
    )
    for line in _verdicts(found, worst(methods)):
        options.say(line)


def _verdicts(found: MemoryStudy, worst: tuple[float, float]) -> list[str]:
    """Of the level that the scheduler predicts with unless told otherwise; of all without it."""
    from engine.core.config import AdmissionConfig

    predicted = [row for row in found.rows if row.variant.name.startswith("predicted")]
    usual = [r for r in predicted if r.variant.admission.level == AdmissionConfig().level]
    lines = []
    for row in usual or predicted:
        relative, wasted = row.relative.median, row.wasted.median
        lines.append(
            options.verdict(
                relative >= 0.95 and wasted < 0.05,
                f"{row.variant.name} has {relative:.1%} of the best limit's goodput (at least "
                f"95%) and wastes {wasted:.1%} of what it generates (below 5%)",
            )
        )
    slower, later = worst
    lines.append(
        options.verdict(
            slower >= 0.97 and later <= 1.03,
            f"preemption chosen by cost has at worst {slower:.1%} of the better method's tokens/s "
            f"and {later:.1%} of its mean E2EL (within 3%)",
        )
    )
    return lines


def write_plot(path: Path, found: MemoryStudy, methods: list[Method], where: str) -> None:
    """Goodput and waste over the limit of concurrency, admission control beside it."""
    from drift.report import Table
    from engine.core.config import PreemptionMode

    swept = [row for row in found.rows if row.variant.swept]
    modes = dict.fromkeys(row.variant.preemption for row in swept)
    names = {PreemptionMode.AUTO: "static limit", PreemptionMode.RECOMPUTE: "without swap"}

    def figure(title: str, what: str, unit: str) -> plots.Figure:
        def series(name: str, rows: Sequence[Row]) -> plots.Series:
            values = [getattr(row, what) for row in rows]
            return plots.Series(
                name,
                [float(row.variant.limit) for row in rows],
                [value.median for value in values],
                [value.p10 for value in values],
                [value.p90 for value in values],
            )

        parts = [
            series(names[mode], [row for row in swept if row.variant.preemption is mode])
            for mode in modes
        ]
        parts += [series(row.variant.name, [row]) for row in found.rows if row not in swept]
        words = ", ".join(
            f"{row.variant.name} {getattr(row, what).median:.3g}" for row in found.rows
        )
        return plots.Figure(
            title,
            f"{title} over the limit of concurrency: {words}",
            plots.Axis("requests that may run at once"),
            plots.Axis(unit),
            parts,
            caption="Lines: admission off, and a limit set beforehand; where they fall to the "
            "right the engine thrashes. Points: all slots, with admission control. Medians over "
            "seeds with the 10th to 90th percentile.",
        )

    table = Table(
        "Preemption with admission off",
        ("bandwidth and method", "tokens/s / better", "mean E2EL / better"),
        tuple(
            (f"{m.bandwidth:g}x {m.mode}", options.spread(m.throughput, 3),
             options.spread(m.mean_e2el, 3))
            for m in methods
        ),
    )  # fmt: skip
    parts = [
        figure("Goodput", "goodput", "requests/s within the objective"),
        figure("Tokens recomputed or swapped", "wasted", "share of generated tokens"),
        figure("Mean E2EL", "mean_e2el", "seconds"),
    ]
    plots.write(path, "KV memory cut short", where, [*parts, table])
