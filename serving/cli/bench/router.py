"""``shortfirst bench router``: several replicas behind a router."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import lengths as sources
from serving.cli.bench import options, plots

if TYPE_CHECKING:
    from engine.bench.routing import RoutingRow


def router(
    replicas: Annotated[int, typer.Option(help="Engines behind the router.")] = 4,
    routers: Annotated[
        str,
        typer.Option(
            help="Comma-separated: round_robin, least_outstanding, least_predicted, prefix_affine. "
            "The first is what the others are compared with."
        ),
    ] = "round_robin,least_outstanding,least_predicted,prefix_affine",
    profile: options.Profile = "llama3-8b-a100",
    lengths: sources.Option = "",
    policy: Annotated[str, typer.Option(help="Of each replica; see bench sim.")] = "boost-fast",
    load: Annotated[
        float,
        typer.Option(
            help="Work offered, of what all full batches can do; of conversations only what is new "
            "in a turn counts."
        ),
    ] = 0.85,
    turns: Annotated[float, typer.Option(help="Turns of a conversation, on average.")] = 5.0,
    think: Annotated[
        float, typer.Option(help="Seconds from an answer to the next turn, on average.")
    ] = 30.0,
    system: Annotated[
        int, typer.Option(help="Tokens of a system prompt that all conversations share.")
    ] = 256,
    requests: Annotated[int, typer.Option(help="Requests per run, turns included.")] = 4000,
    tau: options.Tau = 0.5,
    seeds: options.Seeds = 5,
    jobs: options.Jobs = 0,
    plot: plots.Option = None,
    as_json: options.Json = False,
) -> None:
    """Which router, for which traffic? For planning past one machine.

    Single requests in waves, and conversations whose turns repeat all that was said before: with
    these a turn is cheap where its beginning is still in the prefix cache.
    """
    from engine.bench.routing import RoutingConfig, study
    from serving.cli.console import print_json, progress

    chosen, drawn = options.profile_of(profile), sources.read(lengths)
    config = RoutingConfig(
        replicas=replicas,
        requests=requests,
        load=load,
        policy=policy,
        routers=tuple(name.strip() for name in routers.split(",") if name.strip()),
        tau=tau,
        turns=turns,
        think=think,
        system=system,
    )
    numbers, workers = options.seeds_of(seeds), options.jobs_of(jobs)
    with progress("Simulating", 2 * len(config.routers) * seeds, "runs") as bar:
        rows = study(config, drawn.lengths, chosen, numbers, workers, bar.update)
    where = f"{replicas} x {chosen.name}, lengths of {drawn.name}, {policy}"
    where += f", {options.plural(seeds, 'seed')}"
    if plot is not None:
        write_plot(plot, rows, where)
    if as_json:
        print_json(
            options.report(
                profile=chosen, lengths=drawn.name, config=config, seeds=seeds, rows=rows
            )
        )
        return
    _print(rows, where)


def _print(rows: list[RoutingRow], where: str) -> None:
    from serving.cli.console import print_table

    for traffic in dict.fromkeys(row.traffic for row in rows):
        print_table(
            ["router", "mean E2EL", "p99 E2EL", "mean TTFT", "p99 TTFT", "seconds", "uneven",
             "hits", "busy"],
            [
                [
                    row.router,
                    options.spread(row.mean_e2el),
                    options.spread(row.p99_e2el),
                    f"{row.mean_ttft.median:.2f}",
                    f"{row.p99_ttft.median:.2f}",
                    f"{row.seconds_mean.median:.1f}/{row.seconds_p99.median:.1f}",
                    f"{row.imbalance.median:.2f}",
                    f"{row.hits.median:.0%}",
                    f"{row.utilisation.median:.0%}",
                ]
                for row in rows
                if row.traffic == traffic
            ],
            title=f"{traffic[0].upper()}{traffic[1:]}; {where}",
            caption=f"Latencies: router / {rows[0].router}. Seconds: mean/p99 E2EL. Uneven: output "
            "tokens of the busiest replica over the mean. Hits: prompt tokens found in a prefix "
            "cache. Median over seeds (p10-p90).",
        )  # fmt: skip


def write_plot(path: Path, rows: list[RoutingRow], where: str) -> None:
    """Bars of latencies per router, for each kind of traffic."""
    figures = []
    measures = (("mean E2EL", "mean_e2el"), ("p99 E2EL", "p99_e2el"), ("mean TTFT", "mean_ttft"))
    for traffic in dict.fromkeys(row.traffic for row in rows):
        own = [row for row in rows if row.traffic == traffic]
        words = ", ".join(f"{row.router} mean E2EL {row.mean_e2el.median:.2f}" for row in own)
        figures.append(
            plots.Figure(
                f"{traffic[0].upper()}{traffic[1:]}",
                words,
                plots.Axis(""),
                plots.Axis(f"over {rows[0].router}"),
                [
                    plots.Series(
                        label,
                        [row.router for row in own],
                        [getattr(row, what).median for row in own],
                        [getattr(row, what).p10 for row in own],
                        [getattr(row, what).p90 for row in own],
                    )
                    for label, what in measures
                ],
                caption="Below the line is better.",
                bars=True,
                level=1.0,
                height=340,
            )
        )
    plots.write(path, "Replicas behind a router", where, figures)
