"""``shortfirst bench soak``: thousands of clients that misbehave; nothing may be left of them."""

from __future__ import annotations

from typing import Annotated

import typer


def soak(
    requests: Annotated[int, typer.Option(help="Requests in all.")] = 10_000,
    clients: Annotated[int, typer.Option(help="Requests under way at once.")] = 48,
    seed: Annotated[int, typer.Option(help="Decides what clients do.")] = 0,
    growth_mib: Annotated[
        float,
        typer.Option(help="Memory that the last third may have more than the first, medians."),
    ] = 32.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The real server on a tiny random model, both protocols, two lanes, too little memory, steps
    that fail: clients ask, hang up, miss deadlines and send nonsense. Then what the process holds
    is counted.

    Status 1 when something leaked or a request ended as it should not.
    """
    import asyncio
    from dataclasses import asdict

    import torch

    from engine.native import library
    from serving import logs
    from serving.cli import console
    from serving.paths import Home
    from serving.soak.config import SoakConfig
    from serving.soak.run import soak as run

    logs.configure("critical")  # steps fail on purpose, and say so
    config = SoakConfig(requests, clients, seed, growth_mib)
    torch.set_num_threads(1)  # steps are tiny: more threads would only wait for each other
    native = library.load(Home.resolve().cache / "native")
    if native is None:
        console.note("No compiler, so torch runs the model, and keeps memory for each new shape.")
    with console.progress("Soaking", requests, "requests") as bar:
        report = asyncio.run(run(config, native, lambda: bar.advance(1)))
    if as_json:
        console.print_json({"sound": report.sound, **asdict(report)})
    else:
        rows = [(*name.split(": ", 1), count) for name, count in report.results.items()]
        console.print_table(("request", "result", "count"), rows)
        first, last = report.resident_mib
        memory = report.stats.scheduler
        console.print_table(
            ("what", "value"),
            [
                ("requests per second", report.requests / report.seconds),
                ("preempted for memory, order", f"{memory.preempted_for_memory}, "
                                                f"{memory.preempted_for_order}"),
                ("tokens swapped, recomputed", f"{memory.swapped_tokens}, "
                                               f"{memory.recomputed_tokens}"),
                ("steps, failed", f"{report.stats.steps}, {report.stats.failed_steps}"),
                ("tasks, threads, files before", _counts(report.before)),
                ("tasks, threads, files after", _counts(report.after)),
                ("blocks in use after, share", report.after.readings["kv_cache_usage_ratio"]),
                ("objects of requests after", sum(report.after.objects.values())),
                ("resident MiB, first third", first),
                ("resident MiB, last third", last),
            ],
        )  # fmt: skip
        typer.echo("nothing leaked" if not report.leaks else f"left: {'; '.join(report.leaks)}")
    if not report.sound:
        raise typer.Exit(1)


def _counts(residue: object) -> str:
    return ", ".join(str(getattr(residue, name)) for name in ("tasks", "threads", "files"))
