"""``shortfirst bench fairness``: tenants that flood, and lanes that share an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import lengths as sources
from serving.cli.bench import options, plots

if TYPE_CHECKING:
    from engine.bench.fairness import FairnessRow, FairnessStudyConfig
    from engine.bench.lanes import LanesConfig, LanesRow


def fairness(
    profile: options.Profile = "llama3-8b-a100",
    lengths: sources.Option = "",
    policies: Annotated[
        str, typer.Option(help="Comma-separated: order within a tenant; see bench sim.")
    ] = "fcfs,boost-fast",
    tenants: Annotated[int, typer.Option(help="Tenants, of equal shares.")] = 8,
    load: Annotated[
        float,
        typer.Option(help="Work of all tenants without a flood, of what full batches can do."),
    ] = 0.8,
    flood: Annotated[
        float, typer.Option(help="How many times its share the flooding tenant sends.")
    ] = 10.0,
    requests: Annotated[int, typer.Option(help="Requests of a run without a flood.")] = 2400,
    chat_requests: Annotated[int, typer.Option(help="Requests of the chat lane.")] = 1500,
    chat_load: Annotated[
        float, typer.Option(help="Work of the chat lane, of what full batches can do.")
    ] = 0.4,
    chat_policy: Annotated[str, typer.Option(help="Order within the chat lane.")] = "boost-fast",
    token_budget: Annotated[
        int, typer.Option(help="Tokens of a step where lanes share the engine.")
    ] = 512,
    slo_ttft: Annotated[float, typer.Option(help="Chat's objective for TTFT, seconds.")] = 2.0,
    slo_tpot: Annotated[float, typer.Option(help="Chat's objective for TPOT, seconds.")] = 0.2,
    tau: options.Tau = 0.5,
    seeds: options.Seeds = 5,
    jobs: options.Jobs = 0,
    plot: plots.Option = None,
    as_json: options.Json = False,
) -> None:
    """One tenant floods the engine; a batch lane saturates it. What do the others notice?

    Means against a flood: none; virtual token counters (VTC), which serve the tenant that has had
    least; those and a hard budget of twice its share for each tenant. Then chat beside a pile of
    summaries: in one queue, in lanes by share, and in lanes by precedence.
    """
    from engine.bench import fairness as tenancy
    from engine.bench import lanes
    from engine.core.lanes import Slo
    from engine.core.policies import names
    from serving.cli.console import print_json, progress

    chosen, drawn = options.profile_of(profile), sources.read(lengths)
    numbers, workers = options.seeds_of(seeds), options.jobs_of(jobs)
    config = tenancy.FairnessStudyConfig(
        requests, tenants, load, flood, tau=tau, policies=tuple(names(policies))
    )
    chat = lanes.LanesConfig(
        requests=chat_requests,
        load=chat_load,
        token_budget=token_budget,
        slo=Slo(slo_ttft, slo_tpot),
        chat_policy=chat_policy,
        tau=tau,
    )
    cells = len(config.policies) * len(tenancy.MEANS) * seeds
    with progress("Tenants", cells, "cells") as bar:
        rows = tenancy.study(config, drawn.lengths, chosen, numbers, workers, bar.update)
    with progress("Lanes", len(lanes.WAYS) * seeds, "cells") as bar:
        ways = lanes.study(chat, drawn.lengths, chosen, numbers, workers, bar.update)
    where = f"{chosen.name}, lengths of {drawn.name}, {options.plural(seeds, 'seed')}"
    if plot is not None:
        write_plot(plot, rows, ways, where)
    if as_json:
        print_json(
            options.report(
                profile=chosen,
                lengths=drawn.name,
                seeds=seeds,
                tenants={"config": config, "rows": rows},
                lanes={"config": chat, "rows": ways},
            )
        )
        return
    _print_tenants(rows, config, where)
    _print_lanes(ways, chat, where)


def _print_tenants(rows: list[FairnessRow], config: FairnessStudyConfig, where: str) -> None:
    from serving.cli.console import print_table

    print_table(
        ["policy", "means", "others' p99", "mean", "TPOT", "worst p99", "flooder", "Jain"],
        [
            [
                row.policy,
                row.means,
                options.spread(row.others_p99),
                f"{row.others_mean.median:.2f}",
                f"{row.others_tpot.median:.2f}",
                f"{row.worst_p99.median:.2f}",
                f"{row.flooder_mean.median:.1f}",
                options.spread(row.jain, 3),
            ]
            for row in rows
        ],
        title=f"One of {config.tenants} tenants sends {config.flood:g}x its share; {where}",
        caption="E2EL and TPOT under the flood over those without it; flooder: its mean E2EL. TPOT "
        "is not waiting but longer steps: a flood fills all slots, and only budgets leave some "
        "free. Jain: of service among tenants that all want more than their share; 1 is equal. "
        "Median over seeds (p10-p90).",
    )
    for row in rows:
        if row.means == "none":
            continue
        options.say(
            options.verdict(
                row.others_p99.median <= 1.25 and row.jain.median >= 0.95,
                f"{row.policy} with {row.means}: the others' p99 E2EL is "
                f"{row.others_p99.median:.2f}x theirs without the flood (at most 1.25x), Jain's "
                f"index {row.jain.median:.3f} (at least 0.95)",
            )
        )


def _print_lanes(ways: list[LanesRow], config: LanesConfig, where: str) -> None:
    from serving.cli.console import print_table

    print_table(
        ["chat and batch", "chat within SLO", "chat p99 TTFT", "chat p99 TPOT", "batch tokens/s"],
        [
            [
                row.way,
                options.share(row.attainment),
                options.spread(row.chat_ttft, unit=" s"),
                f"{row.chat_tpot.median * 1000:.0f} ms",
                f"{row.batch_tokens.median:.0%}",
            ]
            for row in ways
        ],
        title=f"A chat lane at {config.load:.0%} load beside a saturated batch lane; {where}",
        caption=f"SLO: TTFT {config.slo.ttft:g} s, TPOT {config.slo.tpot:g} s. Batch: prompt and "
        "output tokens per second while chat lasted, of what it gets alone.",
    )
    for row in ways:
        if row.way.startswith("precedence"):
            options.say(
                options.verdict(
                    row.attainment.median >= 0.95,
                    f"with {row.way} {row.attainment.median:.1%} of chat requests meet their "
                    "objective (at least 95%)",
                )
            )


def write_plot(path: Path, rows: list[FairnessRow], ways: list[LanesRow], where: str) -> None:
    """Bars for each policy and means, and for each way of sharing."""

    def bars(title: str, unit: str, what: str, level: float | None) -> plots.Figure:
        policies = list(dict.fromkeys(row.policy for row in rows))
        series = []
        for policy in policies:
            own = [row for row in rows if row.policy == policy]
            values = [getattr(row, what) for row in own]
            series.append(
                plots.Series(
                    policy,
                    [row.means for row in own],
                    [value.median for value in values],
                    [value.p10 for value in values],
                    [value.p90 for value in values],
                )
            )
        words = ", ".join(f"{r.policy} with {r.means} {getattr(r, what).median:.3g}" for r in rows)
        return plots.Figure(
            title, f"{title}: {words}", plots.Axis(""), plots.Axis(unit), series,
            bars=True, level=level, height=340,
        )  # fmt: skip

    attained = [row.attainment for row in ways]
    chat = plots.Figure(
        "Chat requests within their objective",
        ", ".join(f"{row.way} {row.attainment.median:.0%}" for row in ways),
        plots.Axis(""),
        plots.Axis("share"),
        [
            plots.Series(
                "attainment",
                [row.way for row in ways],
                [value.median for value in attained],
                [value.p10 for value in attained],
                [value.p90 for value in attained],
            )
        ],
        caption="Beside a batch lane that saturates the engine. The line: 95%.",
        bars=True,
        level=0.95,
        height=340,
    )
    plots.write(
        path,
        "Fairness",
        where,
        [
            bars(
                "The others' p99 E2EL under a flood", "over theirs without it", "others_p99", 1.25
            ),
            bars("Jain's index of tenants that all want more", "index", "jain", 0.95),
            chat,
        ],
    )
