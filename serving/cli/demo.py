"""``shortfirst demo``: the whole loop, from training to an alert."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

#: Where this project's developers keep traffic of other services; nobody else has it.
_FOREIGN = Path("../shared/data/prompts_permissive.parquet")


def demo(
    lengths: Annotated[
        str,
        typer.Option(
            help="log: each answer runs to the length that the log recorded, as serving benchmarks "
            "do; nothing but the sampler knows it. own: the bundled model stops by itself."
        ),
    ] = "log",
    requests: Annotated[int, typer.Option(help="Prompts in the burst.")] = 96,
    repeats: Annotated[int, typer.Option(help="Bursts, each of its own prompts.")] = 1,
    together: Annotated[
        bool,
        typer.Option(
            "--together/--in-turns",
            help="Run both policies at once, on an engine each, or one after the other, ABBA.",
        ),
    ] = True,
    foreign: Annotated[
        Path | None,
        typer.Option(
            help="Parquet of other services' traffic to shift to: columns id, source, model, "
            "prompt, prompt_tokens, response_tokens. Default: what lies in ../shared/data, or "
            "else code, other languages and deep messages of ShareGPT."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides prompts, arrivals and sampling.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train, serve, compare fcfs with the learned policy on a real burst, detect drift, report.

    Everything is real: prompts of ShareGPT users, the bundled model, gRPC between processes. It
    ends with status 1 when the learned policy did not win.
    """
    from datetime import UTC, datetime

    from serving import logs
    from serving.burst.client import Lengths
    from serving.cli.console import UserError, print_json
    from serving.demo.config import DemoConfig
    from serving.demo.run import run
    from serving.demo.stage import Narrator
    from serving.paths import Home
    from serving.processes import ServiceFailed

    logs.configure("error")
    if lengths not in list(Lengths):
        raise ValueError(f"--lengths must be log or own, got {lengths!r}")
    if foreign is not None and not foreign.is_file():
        raise ValueError(f"--foreign: {foreign}: no such file")
    config = DemoConfig.of(
        lengths=Lengths(lengths),
        requests=requests,
        repeats=repeats,
        seed=seed,
        foreign=foreign or (_FOREIGN if _FOREIGN.is_file() else None),
        together=together,
    )
    say = Narrator(quiet=as_json)
    say.say("shortfirst: the whole loop on real prompts and a real model", "bold")
    try:
        result = run(config, Home.resolve(), say, lambda: datetime.now(UTC))
    except ServiceFailed as error:
        raise UserError(str(error), status=1) from None
    if as_json:
        print_json(result.as_dict())
    if not result.won:
        raise typer.Exit(1)
