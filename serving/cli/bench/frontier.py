"""``shortfirst bench frontier``: what the mean gains and what the tail pays, policy by policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import lengths as sources
from serving.cli.bench import options, plots

if TYPE_CHECKING:
    from engine.bench.frontier import FrontierRow
    from engine.engine_profiles import EngineProfile

_ENGINES = "llama3-8b-a100:32,llama3-8b-a100:64,llama3-8b-a100:128,llama3-8b-h100:128"
_POLICIES = "sjf,ranked,boost-safe,boost-balanced,boost-fast"
#: What is asked of the fast setting, of some setting, and of the fast one with a real ranker: least
#: gain per token, and at what most p99 E2EL.
_FAST, _GENTLE, _RANKER = (4.5, 1.10), (3.6, 1.03), (2.2, 1.10)


def frontier(
    engines: Annotated[
        str, typer.Option(help="Comma-separated NAME:SLOTS; names as --profile of bench sim.")
    ] = _ENGINES,
    lengths: sources.Option = "",
    ranker: Annotated[
        str,
        typer.Option(
            metavar="URI|champion",
            help="Forecasts of a registered ranker on its test prompts, instead of noise.",
        ),
    ] = "",
    policies: Annotated[
        str, typer.Option(help="Comma-separated; see bench sim. fcfs is always there.")
    ] = _POLICIES,
    tau: options.Tau = 0.5,
    period: Annotated[float, typer.Option(help="Seconds of a burst, and of the lull after.")] = 60,
    swing: Annotated[
        float, typer.Option(help="1: silence between bursts; below: the rate swings by so much.")
    ] = 1.0,
    utilisation: Annotated[
        float, typer.Option(help="Mean load as a share of what full batches can do.")
    ] = 0.92,
    cycles: Annotated[
        int, typer.Option(help="Bursts in a run; the first warms up and is not counted.")
    ] = 4,
    sweep: Annotated[
        bool,
        typer.Option(
            "--sweep",
            help="Also tiers, k and patience of boost all over, on the first engine, for the plot.",
        ),
    ] = False,
    seeds: options.Seeds = 12,
    jobs: options.Jobs = 0,
    plot: plots.Option = None,
    as_json: options.Json = False,
) -> None:
    """Bursts of chat on engines of several sizes: gain per token against p99, for each policy.

    Read both columns. Order by forecast alone (ranked) wins the mean and wrecks the tail; boost
    buys most of that for a few percent of p99. Latency per output token makes much of very short
    answers, so the gain without them and the mean E2EL stand beside it. Twelve seeds on four
    engines take a quarter of an hour on one core, a ranker or --sweep as long again.
    """
    from engine.bench import frontier as bursts
    from engine.core.policies import names
    from serving.cli.console import UserError, print_json, progress

    chosen = engines_of(engines)
    numbers, workers = options.seeds_of(seeds), options.jobs_of(jobs)
    uri = sources.CHAMPION if ranker == "champion" else ranker
    drawn = sources.ranked(uri) if uri else sources.read(lengths)
    try:
        config = bursts.FrontierConfig(
            tuple(names(policies)), cycles, 1, period, swing, utilisation, tau
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    known = drawn.forecasts
    with progress("Bursts", len(chosen) * seeds, "cells") as bar:
        rows = bursts.study(
            config, drawn.lengths, chosen, numbers, workers, bar.update, known=known
        )
    families: dict[str, list[FrontierRow]] = {}
    if sweep:
        members = bursts.sweep()
        flat = tuple(dict.fromkeys(name for family in members.values() for name in family))
        wide = bursts.FrontierConfig(flat, cycles, 1, period, swing, utilisation, tau)
        with progress("Sweep", seeds, "cells") as bar:
            swept = bursts.study(
                wide, drawn.lengths, chosen[:1], numbers, workers, bar.update, known=known
            )
        by_name = {row.policy: row for row in swept}
        families = {name: [by_name[each] for each in own] for name, own in members.items()}
    said = f"tau {tau:g}" if known is None else "a ranker's forecasts"
    where = f"{period:g} s bursts, {drawn.name}, {said}, load {utilisation:g}, {seeds} seeds"
    if plot is not None:
        write_plot(plot, rows, families, where)
    if as_json:
        print_json(
            options.report(
                config=config, lengths=drawn.name, engines=chosen, seeds=seeds, rows=rows,
                sweep=families,
            )
        )  # fmt: skip
        return
    _print(rows, where)
    for line in verdicts(rows, ranker=known is not None):
        typer.echo(line)


def engines_of(text: str) -> list[EngineProfile]:
    """Profiles with so many slots, from ``NAME:SLOTS,...``. Raises ``UserError`` naming it."""
    from dataclasses import replace

    from serving.cli.console import UserError

    found = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, colon, slots = part.rpartition(":")
        if not colon or not slots.isdecimal() or not int(slots):
            raise UserError(f"--engines must be NAME:SLOTS, separated by commas, got {part!r}")
        profile = options.profile_of(name)
        budget = max(profile.max_num_batched_tokens, int(slots))
        found.append(replace(profile, max_num_seqs=int(slots), max_num_batched_tokens=budget))
    if not found:
        raise UserError("--engines must name at least one")
    return found


def _print(rows: Sequence[FrontierRow], where: str) -> None:
    from serving.cli.console import print_table

    print_table(
        ["engine", "policy", "per-token gain", "p99 E2EL", "mean", "p50", "p90", "p99 TTFT",
         "longest TTFT", "gain, 10+ tokens", "saved by < 10"],
        [
            [
                f"{row.engine}:{row.slots}",
                row.policy,
                options.spread(row.gain, unit="x"),
                options.spread(row.p99_e2el, 3),
                *(
                    f"{value.median:.2f}"
                    for value in (row.mean_e2el, row.p50_e2el, row.p90_e2el, row.p99_ttft,
                                  row.max_ttft)
                ),
                f"{row.gain_without_brief.median:.2f}x",
                f"{row.brief_share.median:.0%}",
            ]
            for row in rows
        ],
        title=f"Against fcfs: {where}",
        caption="Gain: mean E2EL per output token, fcfs over the policy; also of answers of 10 "
        "tokens and more, and the share of the saving that is due to shorter ones. Others: the "
        "policy over fcfs. Median over seeds (p10-p90).",
    )  # fmt: skip


def verdicts(rows: Sequence[FrontierRow], *, ranker: bool) -> list[str]:
    """Targets met or missed, engine by engine."""
    found = []
    for engine in dict.fromkeys((row.engine, row.slots) for row in rows):
        own = [row for row in rows if (row.engine, row.slots) == engine]
        name = f"{engine[0]}:{engine[1]}"
        boosts = [row for row in own if row.policy.startswith("boost")]
        goals = [_RANKER] if ranker else [_FAST, _GENTLE]
        for gain, tail in goals:
            within = [row for row in boosts if row.p99_e2el.median <= tail]
            if not within:
                continue
            best = max(within, key=lambda row: row.gain.median)
            found.append(
                options.verdict(
                    best.gain.median >= gain,
                    f"{name}: {best.policy} gains {best.gain.median:.2f}x per token at "
                    f"{best.p99_e2el.median:.3f}x p99 E2EL (at least {gain:g}x at {tail:g}x); "
                    f"mean E2EL {best.mean_e2el.median:.2f}x",
                )
            )
    return found


def write_plot(
    path: Path,
    rows: Sequence[FrontierRow],
    families: dict[str, list[FrontierRow]],
    where: str,
) -> None:
    """p99 E2EL to the right, gain upward, a figure for each engine; the sweep by itself."""

    def figure(title: str, series: list[plots.Series], what: str) -> plots.Figure:
        words = "; ".join(
            f"{each.name} "
            + ", ".join(f"{y:.2f} at {float(x):.3f}" for x, y in zip(each.x, each.y, strict=True))
            for each in series
        )
        return plots.Figure(
            title,
            f"{title}: {words}",
            plots.Axis("p99 E2EL, policy over fcfs"),
            plots.Axis(what),
            series,
            caption="Medians over seeds with the 10th to 90th percentile of the gain. The line: "
            "p99 at 1.10 of fcfs.",
            upright=1.10,
        )

    def of(name: str, own: Sequence[FrontierRow], labels: Sequence[str] = ()) -> plots.Series:
        gains = [row.gain for row in own]
        return plots.Series(
            name,
            [row.p99_e2el.median for row in own],
            [gain.median for gain in gains],
            [gain.p10 for gain in gains],
            [gain.p90 for gain in gains],
            labels=labels,
            lines=len(own) > 1,
        )

    parts: list[plots.Figure] = []
    for engine in dict.fromkeys((row.engine, row.slots) for row in rows):
        own = [row for row in rows if (row.engine, row.slots) == engine]
        series = [of(row.policy, [row]) for row in own]
        parts.append(figure(f"{engine[0]}, {engine[1]} slots", series, "gain per token"))
    if families:
        swept = [of(name, own) for name, own in families.items()]
        parts.insert(
            0, figure("Boost: tiers joined by what is behind them", swept, "gain per token")
        )
    plots.write(path, "Mean and tail", where, parts)
