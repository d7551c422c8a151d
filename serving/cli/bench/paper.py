"""``shortfirst bench paper``: the published tables, and what they look like here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import lengths as sources
from serving.cli.bench import options, plots
from serving.cli.bench.paper_notes import differences

if TYPE_CHECKING:
    from engine.bench.contest import PaperConfig
    from engine.bench.paper import Paper
    from engine.bench.published import Published


def paper(
    profile: options.Profile = "llama3-8b-a100",
    lengths: sources.Option = "",
    tau: options.Tau = 0.54,
    burst: Annotated[int, typer.Option(help="Requests of the burst.")] = 2000,
    rates: Annotated[
        str, typer.Option(help="Poisson arrivals: requests per second, comma-separated.")
    ] = "2,4,8,16,32,64",
    seconds: Annotated[float, typer.Option(help="How long each rate lasts.")] = 60.0,
    samples: Annotated[int, typer.Option(help="Synthetic samples asked for at once.")] = 10_000,
    first: Annotated[int, typer.Option(help="Of which so many are waited for.")] = 1000,
    loads: Annotated[
        str,
        typer.Option(help="Loads to look for throughput at equal latency in, of full batches."),
    ] = "0.5,0.85,1,1.15,1.3,1.6,2,2.5,3",
    load_requests: Annotated[int, typer.Option(help="Requests at each of these loads.")] = 2000,
    level: Annotated[
        float,
        typer.Option(
            help="Latency at which throughput is compared, as a multiple of fcfs's at half load."
        ),
    ] = 10.0,
    seeds: options.Seeds = 3,
    jobs: options.Jobs = 0,
    plot: plots.Option = None,
    as_json: options.Json = False,
) -> None:
    """Fu et al. 2024 (LTR) and FastServe in one command, side by side with what they report.

    The same shapes on the scheduler that serves: gains over FCFS of mean per-token latency in a
    burst and under Poisson arrivals, the time to the first samples of many, and the rate sustained
    at equal latency. Mean and p99 E2EL stand beside the papers' own measures.
    """
    from engine.bench.contest import PaperConfig
    from engine.bench.paper import runs, study
    from serving.cli.console import print_json, progress

    chosen, drawn = options.profile_of(profile), sources.read(lengths)
    config = PaperConfig(
        burst=burst,
        rates=options.numbers(rates, "--rates"),
        seconds=seconds,
        samples=samples,
        first=first,
        loads=options.numbers(loads, "--loads"),
        load_requests=load_requests,
        level=level,
        tau=tau,
    )
    numbers, workers = options.seeds_of(seeds), options.jobs_of(jobs)
    with progress("Simulating", runs(config, seeds), "runs") as bar:
        found = study(config, drawn.lengths, chosen, numbers, workers, bar.update)
    where = f"{chosen.name}, lengths of {drawn.name}, tau {tau:g}, {options.plural(seeds, 'seed')}"
    if plot is not None:
        write_plot(plot, found, config, where)
    if as_json:
        from engine.bench import published

        papers = {
            name: getattr(published, name.upper())
            for name in ("burst", "poisson", "first", "at_mean", "at_tail")
        }
        print_json(
            options.report(
                profile=chosen,
                lengths=drawn.name,
                config=config,
                seeds=seeds,
                found=found,
                published=papers,
                differences=differences(found, config),
            )
        )
        return
    _print(found, config, where)


def _print(found: Paper, config: PaperConfig, where: str) -> None:
    from engine.bench import published
    from serving.cli.console import print_table

    print_table(
        ["policy", "s/token", "gain", "mean E2EL", "p99 E2EL", "max wait", "papers' gains"],
        [
            [
                row.policy,
                f"{row.per_token.median:.3f}",
                options.spread(row.gain, unit="x"),
                f"{row.e2el_gain.median:.2f}x",
                f"{row.p99_gain.median:.2f}x",
                f"{row.waiting.median:.1f} s",
                _papers(published.BURST, row.policy),
            ]
            for row in found.burst
        ],
        title=f"A burst of {config.burst:,}: mean per-token latency; {where}",
        caption="Gain: fcfs / policy, of mean per-token latency; the same of mean and p99 E2EL. "
        "Max wait: mean over requests of the longest wait for a token.",
    )
    print_table(
        ["policy", *(f"{rate:g}/s" for rate in config.rates), "papers' gain"],
        [
            [
                policy,
                *(
                    f"{row.gain.median:.2f}x / {row.p99_gain.median:.2f}x"
                    for rate in config.rates
                    for row in found.poisson[rate]
                    if row.policy == policy
                ),
                _papers(published.POISSON, policy),
            ]
            for policy in config.policies
        ],
        title=f"Poisson arrivals for {config.seconds:g} s: gain of mean per-token latency / of p99 "
        "E2EL",
    )
    print_table(
        ["policy", "seconds", "gain", "papers' gain"],
        [
            [
                policy,
                options.spread(found.first_seconds[policy], 1),
                options.spread(found.first[policy], unit="x"),
                _papers(published.FIRST, policy),
            ]
            for policy in config.policies
        ],
        title=f"The first {config.first:,} of {config.samples:,} samples",
    )
    print_table(
        ["policy", "at equal mean", "at equal p99", "at equal mean E2EL", "papers' gains"],
        [
            [
                f"{row.policy} (at least)" if row.capped else row.policy,
                options.spread(row.at_mean, unit="x"),
                options.spread(row.at_p99, unit="x"),
                options.spread(row.at_mean_e2el, unit="x"),
                _papers((*published.AT_MEAN, *published.AT_TAIL), row.policy),
            ]
            for row in found.sustained
        ],
        title=f"Rate sustained at {config.level:g}x the latency of fcfs at half load, over fcfs's",
        caption="Mean and p99 of per-token latency, as FastServe measures; mean E2EL beside it.",
    )
    for line in differences(found, config):
        options.say(f"- {line}")


def _papers(found: Sequence[Published], policy: str) -> str:
    return ", ".join(
        f"{each.gains[policy]:.2f}x {each.what}" for each in found if policy in each.gains
    )


def write_plot(path: Path, found: Paper, config: PaperConfig, where: str) -> None:
    """Gains over the rate, and the two burst measures."""

    def over_rates(title: str, what: str) -> plots.Figure:
        series = []
        for policy in config.policies:
            rows = [r for rate in config.rates for r in found.poisson[rate] if r.policy == policy]
            values = [getattr(row, what) for row in rows]
            series.append(
                plots.Series(
                    policy,
                    list(config.rates),
                    [value.median for value in values],
                    [value.p10 for value in values],
                    [value.p90 for value in values],
                )
            )
        last = ", ".join(f"{s.name} {s.y[-1]:.2f}" for s in series)
        return plots.Figure(
            title,
            f"{title}; at the highest rate: {last}",
            plots.Axis("requests per second", log=True),
            plots.Axis("fcfs / policy", log=True),
            series,
            level=1.0,
            caption=f"Poisson arrivals for {config.seconds:g} s; above the line is better.",
        )

    burst = plots.Figure(
        f"A burst of {config.burst:,}",
        ", ".join(f"{row.policy} {row.gain.median:.2f}" for row in found.burst),
        plots.Axis(""),
        plots.Axis("fcfs / policy"),
        [
            plots.Series(
                name,
                [row.policy for row in found.burst],
                [getattr(row, what).median for row in found.burst],
                [getattr(row, what).p10 for row in found.burst],
                [getattr(row, what).p90 for row in found.burst],
            )
            for name, what in (
                ("mean per-token latency", "gain"),
                ("mean E2EL", "e2el_gain"),
                ("p99 E2EL", "p99_gain"),
            )
        ],
        bars=True,
        level=1.0,
        height=340,
    )
    parts = [
        burst,
        over_rates("Gain of mean per-token latency", "gain"),
        over_rates("Gain of mean E2EL", "e2el_gain"),
        over_rates("Gain of p99 E2EL", "p99_gain"),
    ]
    plots.write(path, "The published tables, here", where, parts)
