"""``shortfirst bench speed``: how fast the scheduler decides, and the simulator simulates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import lengths as sources
from serving.cli.bench import options

if TYPE_CHECKING:
    from engine.bench.scale import Scale
    from engine.bench.speed import Speed, SpeedConfig
    from engine.traces import Trace

_MILLION = 1_000_000


def speed(
    policy: Annotated[str, typer.Option(help="See bench sim.")] = "boost-fast",
    profile: options.Profile = "llama3-8b-a100",
    lengths: sources.Option = "",
    running: Annotated[int, typer.Option(help="Requests that run.")] = 256,
    waiting: Annotated[
        str, typer.Option(help="Numbers of requests that wait, each of which is timed.")
    ] = "10000,100000",
    steps: Annotated[int, typer.Option(help="Steps per repetition.")] = 1000,
    repeats: Annotated[int, typer.Option(help="Repetitions, the sizes in turn.")] = 7,
    trace: Annotated[
        str,
        typer.Option(
            metavar="FILE[:NAME]",
            help="A trace to simulate, as in bench sim. Default: one of the shape of Azure's 2023 "
            "conversation trace.",
        ),
    ] = "",
    requests: Annotated[
        int, typer.Option(help="Requests of the simulation, of a trace at most; 0: none is run.")
    ] = 19_366,
    load: Annotated[
        float, typer.Option(help="Load of the simulation, of what full batches can do.")
    ] = 0.9,
    million: Annotated[
        bool, typer.Option("--million", help="Simulate a million requests too; takes minutes.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Time schedule() while many wait, and the simulation of a trace.

    The first says what scheduling costs each step of an engine; the second how long the other
    commands of the bench take. Both are of this machine at this moment: leave it alone meanwhile.
    """
    from engine.bench.scale import ScaleConfig, scale
    from engine.bench.speed import SpeedConfig
    from engine.bench.speed import speed as measure
    from engine.core.policies import make
    from serving.cli.console import print_json, progress

    chosen, drawn = options.profile_of(profile), sources.read(lengths)
    sizes = tuple(int(size) for size in options.numbers(waiting, "--waiting"))
    config = SpeedConfig(running, sizes, steps, repeats)
    made = partial(make, policy, cost=chosen.cost, batch=running)
    with progress("Timing schedule()", repeats * len(sizes), "repetitions") as bar:
        rows = measure(config, drawn.lengths, chosen.cost, made, bar.update)
    counts = [requests] * (requests > 0) + [_MILLION] * million
    read = sources.traced(trace).trace if trace else None
    scales = []
    for count in counts:
        with progress(f"Simulating {count:,} requests"):
            scales.append(scale(ScaleConfig(count, load, policy), chosen, _of(read, count)))
    if as_json:
        print_json(
            options.report(
                profile=chosen,
                lengths=drawn.name,
                config=config,
                policy=policy,
                schedule_milliseconds=rows,
                simulations=scales,
            )
        )
        return
    _print(rows, scales, config, policy)


def _of(trace: Trace | None, count: int) -> Trace | None:
    """A trace that has so many requests; a million are always made up."""
    return trace if count < _MILLION else None


def _print(rows: list[Speed], scales: list[Scale], config: SpeedConfig, policy: str) -> None:
    from engine.bench.speed import p99_ratio
    from serving.cli.console import print_table

    print_table(
        [
            "waiting",
            "schedule() p50",
            "p99",
            "wall p99",
            "commit() p50",
            "add()",
            "admitted / step",
        ],
        [
            [
                row.waiting,
                options.spread(row.schedule_p50, 3),
                options.spread(row.schedule_p99, 3),
                f"{row.wall_p99.median:.3f}",
                f"{row.commit_p50.median:.3f}",
                f"{row.add:.4f}",
                f"{row.admitted:.2f}",
            ]
            for row in rows
        ],
        title=f"Processor milliseconds with {config.running} running, policy {policy}",
        caption=f"{config.repeats} repetitions of {config.steps:,} steps each; median over them "
        "(p10-p90). As many arrive as end. Wall: what else the machine did counts too.",
    )
    if len(rows) > 1:
        ratio, p99 = p99_ratio(rows), rows[0].schedule_p99.median
        few, most = (f"{count:,}" for count in (rows[0].waiting, rows[-1].waiting))
        options.say(
            options.verdict(
                p99 < 1.0 and ratio <= 1.5,
                f"p99 with {few} waiting is {p99:.2f} ms (below 1 ms), with {most} it is "
                f"{ratio:.2f}x that (at most 1.5x); processor time",
            )
        )
    if not scales:
        return
    columns = [
        "trace",
        "requests",
        "output tokens",
        "steps",
        "peak queue",
        "hours",
        "seconds",
        "CPU s",
    ]
    print_table(
        [*columns, "requests/s", "peak memory"],
        [
            [
                run.trace,
                run.requests,
                run.output_tokens,
                run.steps,
                run.peak_waiting,
                f"{run.simulated_seconds / 3600:.2f}",
                f"{run.seconds:.1f}",
                f"{run.cpu_seconds:.1f}",
                f"{run.requests_per_second:,.0f}",
                f"{run.peak_bytes / 2**20:,.0f} MiB",
            ]
            for run in scales
        ],
        title="Simulations",
        caption="azure-like: of the shape of Azure's 2023 conversation trace. Hours on the virtual "
        "clock, seconds of this machine; memory of the whole process.",
    )
    for run in scales:
        minutes, limit = run.cpu_seconds / 60.0, 15.0 if run.requests >= _MILLION else 0.5
        gib = run.peak_bytes / 2**30
        options.say(
            options.verdict(
                minutes < limit and gib < 4.0,
                f"{run.requests:,} requests took {minutes:.1f} minutes of processor time (below "
                f"{limit:g}) and {gib:.1f} GiB (below 4)",
            )
        )
