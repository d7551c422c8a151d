"""``shortfirst drift act-replay``: what acting on drift is worth."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import plots
from serving.cli.drift_bench import RankerOption, SharedData, load

if TYPE_CHECKING:
    from drift.acting.config import ActConfig
    from serving.drift_bench.acting.study import Study
    from serving.drift_bench.acting.summary import Part, Spread


def act_replay(
    shift: Annotated[
        str,
        typer.Option(
            help="What traffic turns into, by name, as in the benchmark; reversed: the same "
            "prompts, scores in the opposite order."
        ),
    ] = "reversed",
    policies: Annotated[
        str, typer.Option(help="Policies that are compared, with commas between.")
    ] = "ranked,boost-fast,boost-safe",
    seeds: Annotated[int, typer.Option(min=1, help="Replays, each of other arrivals.")] = 8,
    warm_up: Annotated[
        int, typer.Option(min=0, help="Arrivals that are not measured, before all others.")
    ] = 1500,
    usual: Annotated[int, typer.Option(min=1, help="Arrivals of usual traffic.")] = 900,
    changed: Annotated[int, typer.Option(min=1, help="Arrivals of what it turns into.")] = 1800,
    again: Annotated[int, typer.Option(min=1, help="Arrivals of usual traffic once more.")] = 1800,
    off: Annotated[
        list[str] | None,
        typer.Option(
            help="An action not taken: shrink, fallback, recalibrate or early. May be repeated."
        ),
    ] = None,
    shared_data: SharedData = None,
    ranker: RankerOption = "",
    seed: Annotated[int, typer.Option(min=0, help="Of everything drawn.")] = 20261130,
    plot: plots.Option = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Replay an abrupt change of traffic with the monitor acting and without, against FCFS.

    Real prompts, lengths and forecasts arrive in bursts at the scheduler that serves, on a virtual
    clock. What ends goes to the monitor, and the trust that it leaves to forecasts is stamped on
    whoever comes next. Then traffic goes back to usual, and trust returns. Without --shared-data
    there are the shifts of the bundled data: reversed, not-english, unlike, code, deep-long,
    smollm2. Twenty seconds of one core for each seed; Ctrl-C prints what there is.

    \b
    Examples:
      shortfirst drift act-replay --plot acting.html
      shortfirst drift act-replay --shift not-english --policies ranked --seeds 4
      shortfirst drift act-replay --off recalibrate --off shrink
      shortfirst drift act-replay --shift livecodebench --shared-data DATA --json
    """
    from engine.core.policies.options import names
    from serving.cli import console
    from serving.drift_bench.acting.config import ActingConfig
    from serving.drift_bench.acting.study import runs_of, study

    config = ActingConfig(
        shift=shift,
        warm_up=warm_up,
        usual=usual,
        changed=changed,
        again=again,
        policies=tuple(names(policies)),
        seeds=seeds,
        act=_actions(off or []),
        seed=seed,
    )
    begun = study(load(shared_data, ranker), config)
    replays = []
    try:
        with console.progress(f"Replaying {shift}", runs_of(config), "runs") as bar:
            for replay in begun.run(bar.advance):
                replays.append(replay)
    except KeyboardInterrupt:
        if not replays:
            raise
        console.note("interrupted; this is what there is")
    found = replace(begun, replays=tuple(replays))
    if as_json:
        console.print_json(found.as_dict())
    else:
        _show(found)
    if plot is not None:
        from serving.cli.drift_act_plot import draw

        console.note(f"figures: {draw(plot, found)}")


#: Names of the actions that can be switched off.
ACTIONS = ("shrink", "fallback", "recalibrate", "early")


def _actions(off: list[str]) -> ActConfig:
    """Raises ``ValueError`` naming an action that is not there."""
    from drift.acting.config import ActConfig

    for name in off:
        if name not in ACTIONS:
            raise ValueError(f"--off must be one of {', '.join(ACTIONS)}, got {name!r}")
    return ActConfig.from_mapping({name: name not in off for name in ACTIONS})


def _show(found: Study) -> None:
    from serving.cli.console import note, print_table
    from serving.drift_bench.acting.parts import CHANGED, FOUND, PARTS
    from serving.drift_bench.acting.summary import PROMISE, delays, lines

    rows = lines(found)
    print_table(
        ("policy", "monitor", *TITLES.values(), "longest tenth"),
        [
            (
                line.policy,
                "acts" if line.acting else "-",
                *(cell(line.parts[part]) for part in PARTS),
                spread(line.parts[CHANGED].longest),
            )
            for line in rows
        ],
        title=f"Traffic turns into {found.story.shift.name}: {found.story.shift.what}",
        caption=f"Mean / p99 of E2EL over those of the same requests under FCFS. Median of "
        f"{len(found.replays)} seeds, p99 from the lowest to the highest; the longest tenth: p99 "
        f"of all of them after the change. tau-b {found.reference.tau.value:.2f} before it, "
        f"{found.left:.2f} of that after it.",
    )
    for delay in delays(found):
        early = f"; gone before the change in {delay.early}" if delay.early else ""
        note(
            f"{delay.policy}: trust was gone {spread(delay.found, 0)} arrivals after the change "
            f"and back {spread(delay.returned, 0)} after usual traffic was{early}."
        )
    for line in rows:
        after, later = line.parts[CHANGED], line.parts[FOUND]
        note(
            f"{line.policy}{', monitor acting' if line.acting else ''}: p99 within {PROMISE:.2f}x "
            f"of FCFS in {after.within} of {after.seeds} seeds over all after the change, in "
            f"{later.within} of {later.seeds} once it was found."
        )


#: Columns of the table, by part of the replay.
TITLES = {
    "usual": "usual traffic",
    "changed": "after the change",
    "found": "once found",
    "again": "usual again",
    "returned": "trust back",
}


def cell(part: Part) -> str:
    """``mean / p99 (lowest-highest p99)``."""
    return f"{_number(part.mean.median)} / {spread(part.p99)}" if part.seeds else "-"


def spread(values: Spread, digits: int = 2) -> str:
    """``median (lowest-highest)``."""
    low, high = _number(values.low, digits), _number(values.high, digits)
    return f"{_number(values.median, digits)} ({low}-{high})"


def _number(value: float, digits: int = 2) -> str:
    return "-" if math.isnan(value) else "never" if math.isinf(value) else f"{value:,.{digits}f}"
