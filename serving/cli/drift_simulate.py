"""``shortfirst drift simulate``: one shift as the monitor sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import plots
from serving.cli.drift_bench import RankerOption, SharedData, load

if TYPE_CHECKING:
    from serving.drift_bench.simulate import Simulation

#: Rows of the table.
_ROWS = 24


def simulate(
    shift: Annotated[
        str,
        typer.Option(help="What traffic turns into, by name, as in the benchmark; none: nothing."),
    ] = "unlike",
    before: Annotated[int, typer.Option(min=1, help="Outcomes before the change.")] = 1000,
    after: Annotated[int, typer.Option(min=1, help="Outcomes after it.")] = 1500,
    mixing: Annotated[
        int, typer.Option(min=0, help="Outcomes over which it takes place; 0: at once.")
    ] = 0,
    scale: Annotated[
        float, typer.Option(help="How many times as long answers become after the change.")
    ] = 1.0,
    order: Annotated[
        str, typer.Option(help="independent, fcfs, sjf-bursts or topic-bursts.")
    ] = "independent",
    shared_data: SharedData = None,
    ranker: RankerOption = "",
    seed: Annotated[int, typer.Option(min=0, help="Of everything drawn.")] = 20261130,
    plot: plots.Option = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Stream real traffic through the monitor, change it, and show what the monitor says.

    \b
    Examples:
      shortfirst drift simulate --shift code
      shortfirst drift simulate --shift none --scale 2
      shortfirst drift simulate --shift gsm8k --shared-data DATA --mixing 5000 --after 6000
    """
    from serving.cli import console
    from serving.drift_bench.bench import Bench
    from serving.drift_bench.config import BenchConfig
    from serving.drift_bench.simulate import SimulationConfig
    from serving.drift_bench.simulate import simulate as run
    from serving.drift_bench.streams import Order

    if order not in list(Order):
        raise ValueError(f"--order must be one of {', '.join(Order)}, got {order!r}")
    config = SimulationConfig(shift, before, after, mixing, scale, Order(order))
    found = run(Bench(BenchConfig(seed=seed)), load(shared_data, ranker), config)
    if as_json:
        console.print_json(found.as_dict())
    else:
        _show(found)
    if plot is not None:
        console.note(f"figures: {_draw(plot, shift, found)}")


def _show(found: Simulation) -> None:
    from serving.cli.console import note, print_table

    points = found.points
    kept = points[:: max(1, len(points) // _ROWS)]
    print_table(
        ("outcome", "since change", "state", "tau-b", "95% interval", "chart", "within p50"),
        [
            (
                p.outcome,
                p.outcome - found.changed,
                str(p.state),
                p.tau,
                f"{p.low:.2f} to {p.high:.2f}",
                p.chart,
                f"{p.coverage_p50:.0%}",
            )
            for p in kept
        ],
        title="What the monitor sees",
        caption=f"Reference tau-b {found.reference.tau.value:.2f}; the chart calls it degraded at "
        f"{found.reference.degraded_limit:.1f}.",
    )
    if found.held:
        note(f"Half the outcomes were held {found.held:,.0f} completions; {found.late:.1%} late.")
    if not found.events:
        note("No event.")
    for event in found.events:
        note(f"{event.outcome - found.changed:+,} outcomes: {event.message}")


def _draw(path: Path, shift: str, found: Simulation) -> Path:
    at = [p.outcome for p in found.points]
    tau = [p.tau for p in found.points]
    figures = [
        plots.Figure(
            "Order over time",
            "Kendall tau-b of the window with its interval; the level is the reference.",
            plots.Axis("outcomes"),
            plots.Axis("tau-b"),
            [
                plots.Series("window", at, tau),
                plots.Series("lower end", at, [p.low for p in found.points]),
                plots.Series("upper end", at, [p.high for p in found.points]),
            ],
            level=found.reference.tau.value,
            upright=found.changed,
        ),
        plots.Figure(
            "Concordance chart",
            "Height of the chart; the level is where the state becomes degraded.",
            plots.Axis("outcomes"),
            plots.Axis("height"),
            [plots.Series("chart", at, [p.chart for p in found.points])],
            level=found.reference.degraded_limit,
            upright=found.changed,
        ),
        plots.Figure(
            "State",
            "0 ok, 1 warn, 2 degraded, 3 fcfs.",
            plots.Axis("outcomes"),
            plots.Axis("state"),
            [plots.Series("state", at, [int(p.state) for p in found.points])],
            upright=found.changed,
            height=260,
        ),
    ]
    return plots.write(path, "A simulated shift", f"Traffic turns into: {shift}", figures)
