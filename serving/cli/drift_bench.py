"""``shortfirst drift benchmark``: how well the detectors do on real traffic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ranker.length_ranker import LengthRanker
    from serving.drift_bench.traffic import Traffic

SharedData = Annotated[
    Path | None,
    typer.Option(
        envvar="SHORTFIRST_DATA",
        help="Folder with prompts_nc.parquet and prompts_permissive.parquet. Without it parts of "
        "the bundled data stand in for other traffic.",
    ),
]
RankerOption = Annotated[
    str,
    typer.Option(
        "--ranker",
        help="Whose forecasts: models:/name@alias or a folder. Default: the lexical one, trained "
        "here on ShareGPT.",
    ),
]


def benchmark(
    shared_data: SharedData = None,
    replays: Annotated[int, typer.Option(min=1, help="Seeded streams per cell.")] = 200,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="scale, tenants, censoring, abrupt, gradual, stationary or queued (abrupt shifts "
            "behind a real engine). May be repeated; all."
        ),
    ] = None,
    detector: Annotated[
        list[str] | None, typer.Option(help="A detector by name. May be repeated; all.")
    ] = None,
    arl: Annotated[
        float, typer.Option(help="Mean outcomes between false alarms to calibrate each to.")
    ] = 100_000.0,
    ranker: RankerOption = "",
    seed: Annotated[int, typer.Option(min=0, help="Of everything drawn.")] = 20261130,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Detectors on replays of real traffic: false alarms, delays, what must be reached.

    Delays are in scored arrivals; what bringing completions back into order costs on top stands
    beside them. Real prompts, real lengths, the real scheduler; scores are kept in the home
    folder. Ctrl-C prints what there is. All of it takes some minutes of one core, most of them for
    simulated engines; --only leaves them out.

    \b
    Examples:
      shortfirst drift benchmark --shared-data DATA
      shortfirst drift benchmark --only abrupt --only scale --detector monitor
    """
    from serving.cli import console
    from serving.drift_bench.bench import Bench
    from serving.drift_bench.config import BenchConfig
    from serving.drift_bench.run import QUESTIONS, cells

    bench = Bench(BenchConfig(replays=replays, arl=arl, seed=seed), tuple(detector or ()))
    traffic = load(shared_data, ranker)
    found: dict[str, list[Any]] = {}
    try:
        for question, about, make in cells(bench, traffic, only or ()):
            with console.progress(f"{question}: {about}"):
                found.setdefault(question, []).extend(make())
    except KeyboardInterrupt:
        console.note("interrupted; this is what there is")
    if as_json:
        console.print_json(
            {
                name: [{**asdict(row), "met": row.met} for row in rows]
                for name, rows in found.items()
            }
        )
        return
    for question in QUESTIONS:
        if question in found:
            show(question, found[question])


def load(shared_data: Path | None, ranker: str = "") -> Traffic:
    """Scored traffic, from the home folder or made now."""
    from serving.cli import tables
    from serving.drift_bench.traffic import Loader
    from serving.paths import Home

    chosen: LengthRanker | None = None
    if ranker:
        from serving.cli.registry import open_registry

        chosen = open_registry().load(ranker)
    with tables.stages() as progress:
        return Loader(Home.resolve().cache, shared_data, chosen, progress=progress).load()


_TITLES = {
    "stationary": "False alarms while nothing changes",
    "abrupt": "Abrupt shifts: scored arrivals until the alarm",
    "queued": "Abrupt shifts behind an engine under bursts",
    "gradual": "Mixing over 5,000 outcomes: alarm before half the SJF efficiency is lost",
    "tenants": "One of ten tenants changes: outcomes of all until the alarm",
    "scale": "All answers longer or shorter, in the same order",
    "censoring": "Answers cut off by a limit: what it costs",
}


def show(question: str, rows: Sequence[Any]) -> None:
    """One table."""
    from serving.cli.console import print_table

    columns, cells = _COLUMNS[question], _CELLS[question]
    print_table(columns, [cells(row) for row in rows], title=_TITLES[question])


_DELAY = (
    "traffic", "order", "detector", "kind", "tau left", "median", "p95", "missed", "owed", "met",
    "held p50 / p95",
)  # fmt: skip
_COLUMNS: dict[str, tuple[str, ...]] = {
    "stationary": (
        "order", "detector", "kind", "alarms", "outcomes", "between", "95% interval", "at least",
        "met", "held p50 / p95", "late",
    ),
    "abrupt": _DELAY,
    "queued": _DELAY,
    "gradual": ("traffic", "detector", "tau left", "median", "p95", "missed", "half lost", "met"),
    "tenants": (
        "traffic", "chart", "tau left", "median", "p95", "missed", "right tenant", "owed", "met",
    ),
    "scale": (
        "lengths", "detector", "kind", "median", "p95", "alarmed", "by chance", "owed", "met",
    ),
    "censoring": (
        "traffic", "cut off", "detector", "median", "p95", "uncut median", "between false alarms",
        "met",
    ),
}  # fmt: skip


def _delay(row: Any) -> list[object]:
    return [
        row.traffic, row.order, row.detector, row.kind, f"{row.left:.2f}", _count(row.median),
        _count(row.p95), f"{row.missed:.0%}", _owed(row.target), _met(row.met), _held(row),
    ]  # fmt: skip


_CELLS: dict[str, Callable[[Any], list[object]]] = {
    "stationary": lambda r: [
        r.order, r.detector, r.kind, r.alarms, r.outcomes, _count(r.between),
        f"{_count(r.low)} to {_count(r.high)}", _count(r.target), _met(r.met), _held(r),
        f"{r.late:.1%}",
    ],
    "abrupt": _delay,
    "queued": _delay,
    "gradual": lambda r: [
        r.traffic, r.detector, f"{r.left:.2f}", _count(r.median), _count(r.p95),
        f"{r.missed:.0%}", _count(r.half), _met(r.met),
    ],
    "tenants": lambda r: [
        r.traffic, r.chart, f"{r.left:.2f}", _count(r.median), _count(r.p95), f"{r.missed:.0%}",
        "-" if math.isnan(r.right) else f"{r.right:.0%}", _owed(r.target), _met(r.met),
    ],
    "scale": lambda r: [
        f"x {r.factor:g}", r.detector, r.kind, _count(r.median), _count(r.p95),
        f"{r.alarmed:.1%}", f"{r.chance:.1%}", _owed(r.target), _met(r.met),
    ],
    "censoring": lambda r: [
        r.traffic, f"{r.cut:.0%}", r.detector, _count(r.median), _count(r.p95), _count(r.plain),
        _count(r.between), _met(r.met),
    ],
}  # fmt: skip


def _count(value: float) -> str:
    return "-" if math.isnan(value) else "never" if math.isinf(value) else f"{value:,.0f}"


def _owed(target: tuple[float, float] | None) -> str:
    return "-" if target is None else f"{target[0]:,.0f} / {target[1]:,.0f}"


def _met(met: bool | None) -> str:
    return "-" if met is None else "yes" if met else "no"


def _held(row: Any) -> str:
    return f"{row.held_median:,.0f} / {row.held_p95:,.0f}" if row.held_p95 else "-"
