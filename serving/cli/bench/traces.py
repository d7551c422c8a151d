"""``shortfirst bench traces``: is the safe setting never worse, on traffic as it really came?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import options, plots

if TYPE_CHECKING:
    from engine.bench.real_traces import Said, TracesRow
    from engine.traces import Trace

_ENGINES = "llama3-8b-a100:64,llama3-70b-8xa100:128,toy-32:32"


def traces(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .parquet, .csv or .jsonl file with arrival_s, input_tokens, output_tokens and, "
            "where there are several traces, trace; tenant and prefix_hash are used if present."
        ),
    ],
    names: Annotated[
        str,
        typer.Option(help="Comma-separated traces, or beginnings of names. Default: all timed."),
    ] = "",
    engines: Annotated[
        str, typer.Option(help="Comma-separated NAME:SLOTS; names as --profile of bench sim.")
    ] = _ENGINES,
    policies: Annotated[
        str, typer.Option(help="Comma-separated; see bench sim. fcfs is always there.")
    ] = "boost-safe",
    loads: Annotated[
        str, typer.Option(help="Work that arrives, of what the engine can do.")
    ] = "0.9,1.0,1.1",
    forecasts: Annotated[
        str,
        typer.Option(
            help="Comma-separated: noise (honest, of --tau), stale (noise of no worth, sold as "
            "certain), flat (knows nothing and says so)."
        ),
    ] = "noise,stale,flat",
    tau: options.Tau = 0.5,
    requests: Annotated[
        int, typer.Option(help="Consecutive requests of a trace in a run, from anywhere in it.")
    ] = 3000,
    seeds: options.Seeds = 5,
    jobs: options.Jobs = 0,
    plot: plots.Option = None,
    as_json: options.Json = False,
) -> None:
    """Real traces, moved to 0.9, 1.0 and 1.1 of what the engine can do, against fcfs.

    Mean, p90 and p99 E2EL of every cell. Where memory, not slots, decides who runs, order changes
    how much fits and fcfs itself varies: such cells are marked and judged by nobody. All cells take
    an hour on one core; name a trace or two, or fewer loads, for a first look.
    """
    from engine.bench import real_traces
    from engine.core.policies import names as policy_names
    from serving.cli.bench.frontier import engines_of
    from serving.cli.console import UserError, print_json, progress

    chosen = engines_of(engines)
    numbers, workers = options.seeds_of(seeds), options.jobs_of(jobs)
    drawn = _read(file, names)
    try:
        config = real_traces.TracesConfig(
            tuple(policy_names(policies)),
            _said(forecasts, tau),
            options.numbers(loads, "--loads"),
            requests,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    cells = len(drawn) * len(chosen) * len(config.loads) * len(config.forecasts) * seeds
    with progress("Traces", cells, "runs") as bar:
        rows = real_traces.study(config, drawn, chosen, numbers, workers, bar.update)
    where = f"{requests} requests a run, tau {tau:g}, {seeds} seeds"
    if plot is not None:
        write_plot(plot, rows, where)
    if as_json:
        print_json(options.report(config=config, engines=chosen, seeds=seeds, rows=rows))
        return
    _print(rows, where)
    for line in verdicts(rows):
        typer.echo(line)


def _read(file: Path, names: str) -> list[Trace]:
    from engine.trace_files import read_trace, trace_names
    from serving.cli.console import UserError

    wanted: list[str | None] = [each.strip() for each in names.split(",") if each.strip()]
    if not wanted:
        wanted = list(trace_names(file)) or [None]
    found = [read_trace(file, name) for name in wanted]
    timed = [trace for trace in found if trace.arrivals is not None]
    if not timed:
        raise UserError(f"{file.name} has no trace with arrival_s")
    return timed


def _said(text: str, tau: float) -> tuple[Said, ...]:
    from engine.bench.real_traces import FORECASTS
    from serving.cli.console import UserError

    known = {each.name: each for each in FORECASTS}
    known["noise"] = known["noise"]._replace(tau=tau)
    found = [each.strip() for each in text.split(",") if each.strip()]
    for name in found:
        if name not in known:
            raise UserError(f"--forecasts must be of {', '.join(known)}, got {name!r}")
    return tuple(known[name] for name in found)


def _print(rows: Sequence[TracesRow], where: str) -> None:
    from serving.cli.console import print_table

    print_table(
        ["trace", "engine", "load", "forecasts", "policy", "mean E2EL", "p90", "p99",
         "per-token gain", "fcfs p99", "memory"],
        [
            [
                row.trace,
                row.engine,
                f"{row.load:g}",
                row.forecasts,
                row.policy,
                options.spread(row.mean_e2el, 3),
                options.spread(row.p90_e2el, 3),
                options.spread(row.p99_e2el, 3),
                f"{row.per_token_gain.median:.2f}x",
                f"{row.fcfs_p99.median:.0f} s",
                f"{row.peak_kv_usage.median:.0%}" + (", bound" if row.kv_bound else ""),
            ]
            for row in rows
        ],
        title=f"Policy over fcfs on real traces: {where}",
        caption="Median over seeds (p10-p90). Memory: peak share of KV blocks; bound: it, not "
        "slots, decides who runs.",
    )  # fmt: skip


def verdicts(rows: Sequence[TracesRow]) -> list[str]:
    """One line per policy and kind of forecast, over the cells that memory does not decide."""
    import numpy as np

    found = []
    for policy, said in dict.fromkeys((row.policy, row.forecasts) for row in rows):
        own = [row for row in rows if (row.policy, row.forecasts) == (policy, said)]
        free = [row for row in own if not row.kv_bound]
        if not free:
            continue
        about = f"{policy}, {said} forecasts, {len(free)} of {len(own)} cells not KV-bound"
        if said == "flat":
            worst = max(abs(row.worst - 1.0) for row in free)
            found.append(
                options.verdict(worst < 1e-6, f"{about}: off fcfs by {worst:.1e} at most (none)")
            )
        elif said == "stale":
            tail = max(row.p99_e2el.median for row in free)
            found.append(
                options.verdict(tail <= 1.05, f"{about}: worst p99 {tail:.3f} (at most 1.05)")
            )
        else:
            worst = max(row.worst for row in free)
            mean = float(np.median([row.mean_e2el.median for row in free]))
            found.append(
                options.verdict(
                    worst <= 1.05 and mean <= 0.97,
                    f"{about}: worst of mean, p90 and p99 {worst:.3f} (at most 1.05); mean of the "
                    f"median cell {mean:.3f} (at most 0.97)",
                )
            )
    return found


def write_plot(path: Path, rows: Sequence[TracesRow], where: str) -> None:
    """For each kind of forecast, mean and tail of every cell; those bound by memory apart."""
    parts = []
    for policy, said in dict.fromkeys((row.policy, row.forecasts) for row in rows):
        own = [row for row in rows if (row.policy, row.forecasts) == (policy, said)]
        series = []
        for trace in dict.fromkeys(row.trace for row in own):
            for bound in (False, True):
                cells = [row for row in own if row.trace == trace and row.kv_bound is bound]
                if cells:
                    series.append(
                        plots.Series(
                            trace + (", KV-bound" if bound else ""),
                            [row.mean_e2el.median for row in cells],
                            [row.p99_e2el.median for row in cells],
                            [row.p99_e2el.p10 for row in cells],
                            [row.p99_e2el.p90 for row in cells],
                            lines=False,
                        )
                    )
        words = "; ".join(
            f"{row.trace} on {row.engine} at {row.load:g}: mean {row.mean_e2el.median:.3f}, "
            f"p99 {row.p99_e2el.median:.3f}"
            for row in own
        )
        parts.append(
            plots.Figure(
                f"{policy}, {said} forecasts",
                words,
                plots.Axis("mean E2EL, policy over fcfs"),
                plots.Axis("p99 E2EL, policy over fcfs"),
                series,
                caption="A point is a cell: trace, engine and load. Median over seeds with the "
                "10th to 90th percentile of p99. The line: 1.05.",
                level=1.05,
            )
        )
    plots.write(path, "Never worse", where, parts)
