"""``shortfirst bench sim``: policies on simulated traffic."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from engine.comparison import Compared, Spread


def sim(
    policies: Annotated[
        str, typer.Option(help="Comma-separated: sjf, ranked, boost-safe, boost-fast.")
    ] = "boost-safe,boost-fast,ranked,sjf",
    lengths: Annotated[
        Path | None,
        typer.Option(
            help="Lengths to draw from: .parquet, .jsonl or .csv with columns prompt_tokens and "
            "output_tokens. Default: the bundled model's own, as committed."
        ),
    ] = None,
    arrivals: Annotated[str, typer.Option(help="burst, poisson or waves.")] = "waves",
    requests: Annotated[int, typer.Option(help="Requests per run.")] = 1000,
    utilisation: Annotated[
        float, typer.Option(help="Mean load as a share of what full batches can do.")
    ] = 0.92,
    spread: Annotated[float, typer.Option(help="Seconds a burst takes to arrive.")] = 1.0,
    period: Annotated[float, typer.Option(help="Seconds of a wave's high and of its low.")] = 60.0,
    swing: Annotated[float, typer.Option(help="How far a wave's rate swings, 0 to 1.")] = 0.6,
    tau: Annotated[
        float, typer.Option(help="Kendall tau-b of the forecasts with the true lengths.")
    ] = 0.4,
    slots: Annotated[int, typer.Option(help="Requests that run at once.")] = 16,
    token_budget: Annotated[int, typer.Option(help="Tokens of one step at most.")] = 512,
    kv_blocks: Annotated[int, typer.Option(help="KV blocks of 16 tokens.")] = 8192,
    step_cost: Annotated[
        tuple[float, float, float],
        typer.Option(
            help="Milliseconds of a step: base, per decode, per prefilled token. Default: the "
            "bundled model in bfloat16 on one thread of an EPYC core, measured by engine.profile."
        ),
    ] = (30.8, 2.04, 1.01),
    seeds: Annotated[int, typer.Option(help="Realisations of the traffic.")] = 12,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Simulate policies on the scheduler that serves, on the same traffic, against fcfs.

    Ratios to fcfs, median over seeds with the 10th to 90th percentile. Mean and p99 side by side:
    a policy that wins the one and loses the other says so.
    """
    from engine.comparison import Arrivals, Scenario, compare
    from engine.core.config import SchedulerConfig
    from engine.core.costs import CostModel
    from engine.length_files import read_lengths
    from serving.cli.console import UserError, print_json, print_table, progress

    if arrivals not in list(Arrivals):
        raise UserError(f"--arrivals must be burst, poisson or waves, got {arrivals!r}")
    if seeds < 1:
        raise UserError(f"--seeds must be at least 1, got {seeds}")
    scenario = Scenario(Arrivals(arrivals), requests, utilisation, spread, period, swing, tau)
    config = SchedulerConfig(slots, token_budget, 16, kv_blocks)
    cost = CostModel(*(milliseconds / 1000.0 for milliseconds in step_cost))
    makers = {name: _maker(name, cost, slots) for name in _names(policies)}
    drawn = read_lengths(lengths or _bundled_lengths())
    total = seeds * (len(makers) + 1)
    with progress("Simulating", total, "runs") as bar:
        rows = compare(scenario, drawn, config, cost, makers, range(seeds), bar.update)
    if as_json:
        print_json(
            {
                "scenario": asdict(scenario),
                "scheduler": asdict(config),
                "cost_seconds": asdict(cost),
                "seeds": seeds,
                "policies": [asdict(row) for row in rows],
            }
        )
        return
    columns = ["policy", "per-token gain", "mean E2EL", "p99 E2EL", "p90 E2EL"]
    columns += ["mean TTFT", "p99 TTFT", "peak queue", "mean queue", "busy"]
    print_table(
        columns,
        [_cells(row) for row in rows],
        title=f"{requests} requests, {arrivals}, tau {tau}, {slots} slots, {seeds} seeds",
        caption="Gain: mean E2EL per output token, fcfs / policy. Latencies: policy / fcfs. "
        "Queue: requests waiting. Median over seeds (p10-p90).",
    )


def _names(policies: str) -> list[str]:
    from serving.cli.console import UserError

    known = ("sjf", "ranked", "boost-safe", "boost-fast")
    names = [name.strip() for name in policies.split(",") if name.strip() not in ("", "fcfs")]
    for name in names:
        if name not in known:
            raise UserError(f"--policies must be of {', '.join(known)}, got {name!r}")
    return list(dict.fromkeys(names))


def _maker(name: str, cost, slots: int):  # type: ignore[no-untyped-def]
    from functools import partial

    from engine.core.policies import Setting, make

    policy, _, setting = name.partition("-")
    return partial(make, policy, cost=cost, batch=slots, setting=setting or Setting.FAST)


def _bundled_lengths() -> Path:
    from importlib.util import find_spec

    spec = find_spec("training")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "data" / "smollm2_lengths.parquet"


def _cells(row: Compared) -> list[str]:
    gain = row.per_token_gain
    return [
        row.policy,
        f"{gain.median:.2f}x ({gain.p10:.2f}-{gain.p90:.2f})",
        *(f"{each.median:.3f} ({each.p10:.2f}-{each.p90:.2f})" for each in _with_spread(row)),
        *(f"{each.median:.3f}" for each in (row.p90_e2el, row.mean_ttft, row.p99_ttft)),
        f"{row.peak_waiting.median:.0f}",
        f"{row.mean_waiting.median:.1f}",
        f"{row.utilisation.median:.2f}",
    ]


def _with_spread(row: Compared) -> tuple[Spread, Spread]:
    return row.mean_e2el, row.p99_e2el
