"""``shortfirst bench burst``: two real engines, the same burst of real prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def burst(
    policy: Annotated[str, typer.Option(help="boost or ranked; fcfs is what it meets.")] = "boost",
    setting: Annotated[str, typer.Option(help="Of boost: safe, balanced or fast.")] = "fast",
    requests: Annotated[int, typer.Option(help="Prompts in a burst.")] = 96,
    spread: Annotated[float, typer.Option(help="Seconds a burst takes to arrive.")] = 1.0,
    repeats: Annotated[int, typer.Option(help="Bursts, each of its own prompts.")] = 1,
    slots: Annotated[int, typer.Option(help="Requests an engine runs at once.")] = 8,
    together: Annotated[
        bool,
        typer.Option(
            "--together/--in-turns",
            help="Run both policies at once, on an engine each, or one after the other, ABBA.",
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="Decides prompts, arrivals and sampling.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Real prompts, the bundled model and two real engines: fcfs against a learned policy.

    Uses the champion of length-ranker; train one first. Answers run to their recorded lengths.
    """
    import tempfile

    from serving import logs
    from serving.burst import session
    from serving.burst import table as burst_table
    from serving.burst.client import Sampling
    from serving.burst.items import BurstConfig
    from serving.cli import console, tables
    from serving.demo import services
    from serving.paths import Home
    from serving.processes import ServiceFailed
    from serving.processes import services as children_in
    from training.bundled import corpus
    from training.sharegpt import SERVED_MODEL

    logs.configure("error")
    config = session.SessionConfig(
        policy=policy,
        setting=setting,
        max_num_seqs=slots,
        repeats=repeats,
        together=together,
        burst=BurstConfig(requests=requests, spread_s=spread, seed=seed),
        sampling=Sampling(seed=seed + 1),
    )
    with tables.stages() as progress:
        test = corpus(Home.resolve().cache, None, progress, later=False).data().split("test")
    items = session.bursts(test, config)
    total = 2 * sum(item.output_tokens for one in items for item in one)
    try:
        with tempfile.TemporaryDirectory(prefix="shortfirst-bench-") as scratch:
            folder = Path(scratch)
            with children_in(folder) as children:
                rank = services.start_rank(children, folder, (SERVED_MODEL,))
                engines = session.start_engines(children, rank, SERVED_MODEL, config)
                with console.progress("Generating", total, "tokens") as bar:
                    found = session.run(engines, rank, SERVED_MODEL, items, config, bar.advance)
    except ServiceFailed as error:
        raise console.UserError(str(error), status=1) from None
    if as_json:
        console.print_json(burst_table.as_dict(found))
        return
    console.print_table(*burst_table.rows(found))
    for line in (*burst_table.facts(found), burst_table.verdict(found)):
        typer.echo(line)
