"""``shortfirst drift loop``: the loop closes, shown on real traffic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.drift_bench import SharedData
from serving.cli.drift_options import Json

if TYPE_CHECKING:
    from serving.drift_loop.run import LoopResult


def loop(
    usual: Annotated[int, typer.Option(min=1, help="Requests of usual traffic first.")] = 900,
    gather: Annotated[
        int, typer.Option(min=1, help="Outcomes since the alert that training waits for.")
    ] = 1000,
    shadow: Annotated[
        int, typer.Option(min=0, help="Outcomes that the challenger is compared on.")
    ] = 150,
    rounds: Annotated[
        int, typer.Option(min=0, help="Rounds of boosting; 0: as many as usual.")
    ] = 0,
    traffic: Annotated[
        str,
        typer.Option(
            help="What traffic turns into, of the shared data: livecodebench, codealpaca, gsm8k, "
            "halueval ... Without it code and other languages of the bundled chat."
        ),
    ] = "",
    shared_data: SharedData = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides order and bursts.")] = 0,
    keep: Annotated[
        Path | None, typer.Option(help="A new folder for all that is written, prompts included.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Shift, alert, retraining, shadow, gate, promotion, recovery, rollback: with a real service.

    A ranker of English questions that open a conversation meets program code and other languages.
    The rank service notices, trains on the outcomes that it was told, compares on live traffic,
    asks the gate and swaps; then the version before is brought back with shortfirst rollback.
    Prompts and lengths are real (ShareGPT). A few minutes of two cores; what is written goes with
    the end unless --keep says where it stays. Status 1: less than 90 % of what training from
    scratch on the new traffic gives came back.
    """
    import tempfile
    from contextlib import nullcontext

    from serving import logs
    from serving.cli import console, tables
    from serving.drift_loop.config import LoopDemoConfig
    from serving.drift_loop.run import run
    from serving.paths import Home
    from serving.processes import ServiceFailed

    logs.configure("error")
    if traffic and shared_data is None:
        raise ValueError("--traffic: is of the shared data; name its folder with --shared-data")
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise ValueError(f"--keep: {keep} is not empty")
    config = LoopDemoConfig(
        usual=usual,
        gather=gather,
        shadow=shadow,
        rounds=rounds,
        seed=seed,
        traffic=traffic,
        shared=shared_data or Path(),
    )
    room = nullcontext(str(keep)) if keep else tempfile.TemporaryDirectory(prefix="shortfirst-")
    try:
        with room as folder, tables.stages() as progress:
            found = run(config, Home.resolve().cache, Path(folder), progress, console.note)
    except ServiceFailed as error:
        raise console.UserError(str(error), status=1) from None
    if as_json:
        console.print_json(found.as_dict())
    else:
        _show(found)
    if found.recovered < 0.9:
        raise typer.Exit(1)


def _show(found: LoopResult) -> None:
    from serving.cli.console import note, print_table

    rows = [("usual traffic", "version 1", found.usual)]
    names = {
        "before": "version 1",
        "retrained": f"version {found.promoted}, retrained",
        "from scratch": "trained from scratch",
    }
    rows += [("new traffic, held out", names[name], value) for name, value in found.fresh.items()]
    print_table(
        ("traffic", "ranker", "SJF efficiency", "+-", "tau-b", "95% interval"),
        [
            (
                traffic, ranker, f"{v.efficiency:.3f}", f"{v.error:.3f}", f"{v.tau.value:.3f}",
                f"{v.tau.low:.3f} to {v.tau.high:.3f}",
            )
            for traffic, ranker, v in rows
        ],
        title="What the orders are worth",
    )  # fmt: skip
    note(
        f"Alert after {found.alert:,} requests of the new traffic ({found.false_alarms} false "
        f"before), promoted after {found.seen:,}, {found.seconds:.0f} s later; "
        f"{found.recovered:.0%} of what training from scratch gives. Rolled back to version "
        f"{found.rolled_back} in one command."
    )
