"""``shortfirst bench sim``: policies on simulated traffic."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from serving.cli.bench import lengths as sources
from serving.cli.bench import options, plots, sim_report

if TYPE_CHECKING:
    from engine.comparison import Makers
    from engine.core.config import SchedulerConfig
    from engine.core.costs import CostModel
    from engine.scenarios import Arrivals
    from engine.traces import Trace
    from engine.workload import Lengths

RANKER = "ranker"
_POLICIES = "boost-safe,boost-fast,ranked,sjf"


def sim(
    policies: Annotated[
        str,
        typer.Option(
            help="Comma-separated: boost-safe, boost-fast, ranked, sjf, srpt, srpt_predicted, "
            "gittins, tie, ltr, mlfq, prompt_sjf, priority; options after a colon, as in "
            "ltr:starvation=100. fcfs is always there."
        ),
    ] = _POLICIES,
    profile: options.Profile = "smollm2-cpu",
    lengths: sources.Option = "",
    trace: Annotated[
        str,
        typer.Option(
            metavar="FILE[:NAME]",
            help="A trace instead of --lengths: .parquet, .csv or .jsonl with arrival_s, "
            "input_tokens, output_tokens and, if there are any, tenant and prefix_hash. NAME: "
            "which, in a file with a column trace.",
        ),
    ] = "",
    arrivals: Annotated[
        str,
        typer.Option(
            help="burst, poisson, gamma, waves, ramp or trace. Default: trace with --trace, else "
            "waves."
        ),
    ] = "",
    requests: Annotated[
        int, typer.Option(help="Requests per run; 0: 1,000, or all of a trace.")
    ] = 0,
    utilisation: Annotated[
        float, typer.Option(help="Mean load as a share of what full batches can do.")
    ] = 0.92,
    spread: Annotated[float, typer.Option(help="Seconds a burst takes to arrive.")] = 1.0,
    period: Annotated[float, typer.Option(help="Seconds of a wave's high and of its low.")] = 60.0,
    swing: Annotated[
        float, typer.Option(help="How far the rate of waves and ramps swings, 0 to 1.")
    ] = 0.6,
    burstiness: Annotated[
        float, typer.Option(help="Shape of gamma gaps: 1 is Poisson, below 1 burstier.")
    ] = 0.25,
    forecasts: Annotated[
        str,
        typer.Option(
            help="truth, noise (honest, of --tau), overconfident (the same noise sold as certain), "
            "flat (knows nothing and says so) or ranker (a registered one, on test prompts)."
        ),
    ] = "noise",
    ranker: Annotated[
        str, typer.Option(help="Whose forecasts --forecasts ranker takes.")
    ] = sources.CHAMPION,
    tau: options.Tau = 0.4,
    slots: Annotated[
        int | None, typer.Option(help="Requests that run at once. Default: the profile's.")
    ] = None,
    token_budget: Annotated[
        int | None, typer.Option(help="Tokens of one step at most. Default: the profile's.")
    ] = None,
    kv_blocks: Annotated[
        int | None, typer.Option(help="KV blocks of 16 tokens. Default: the profile's.")
    ] = None,
    host_blocks: Annotated[
        int | None, typer.Option(help="KV blocks on the host, to swap to. Default: the profile's.")
    ] = None,
    step_cost: Annotated[
        tuple[float, float, float] | None,
        typer.Option(
            help="Milliseconds of a step: base, per decode, per prefilled token. Default: the "
            "profile's."
        ),
    ] = None,
    admission: Annotated[
        str, typer.Option(help="off, static or predicted. Default: the scheduler's, static.")
    ] = "",
    fairness: Annotated[
        bool, typer.Option("--fairness", help="Virtual token counters between a trace's tenants.")
    ] = False,
    slo_ttft: Annotated[
        float | None, typer.Option(help="Objective for TTFT, seconds, for goodput.")
    ] = None,
    slo_tpot: Annotated[
        float | None, typer.Option(help="Objective for TPOT, seconds, for goodput.")
    ] = None,
    slo_e2el: Annotated[
        float | None, typer.Option(help="Objective for E2EL, seconds, for goodput.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Realisations of the traffic.")] = 12,
    jobs: options.Jobs = 0,
    plot: plots.Option = None,
    as_json: options.Json = False,
) -> None:
    """Simulate policies on the scheduler that serves, on the same traffic, against fcfs.

    Ratios to fcfs, median over seeds with the 10th to 90th percentile. Mean and p99 side by side:
    a policy that wins the one and loses the other says so. --json has all measures, named as
    vllm bench serve names them, in seconds.
    """
    from engine.comparison import compare
    from engine.core.fairness import FairnessConfig
    from engine.core.lanes import Slo
    from engine.forecasts import Kind
    from engine.scenarios import Arrivals, Scenario
    from serving.cli.console import print_json, progress

    numbers, workers = options.seeds_of(seeds), options.jobs_of(jobs)
    config, cost = _engine(
        profile,
        {
            "max_num_seqs": slots,
            "max_num_batched_tokens": token_budget,
            "num_blocks": kv_blocks,
            "host_blocks": host_blocks,
        },
        step_cost,
        admission,
    )
    makers = _makers(policies, cost, config.max_num_seqs)
    kind = options.choice(forecasts, (*Kind, RANKER), "--forecasts")
    source = _source(lengths, trace, ranker if kind == RANKER else "")
    shape = _shape(arrivals, source)
    drawn: Lengths | Trace = source.lengths
    if shape is Arrivals.TRACE and source.trace is not None:
        drawn = source.trace
    scenario = Scenario(
        shape,
        requests or (1000 if drawn is source.lengths else len(drawn)),
        utilisation,
        spread,
        period,
        swing,
        tau,
        burstiness,
        Kind.NOISE if kind == RANKER else Kind(kind),
    )
    slo = Slo(slo_ttft, slo_tpot, slo_e2el)
    with progress("Simulating", seeds * (len(makers) + 1), "runs") as bar:
        rows = compare(
            scenario,
            drawn,
            config,
            cost,
            makers,
            numbers,
            bar.update,
            known=source.forecasts,
            fairness=FairnessConfig() if fairness else None,
            slo=None if slo == Slo() else slo,
            jobs=workers,
        )
    title = sim_report.title(scenario, source.name, config.max_num_seqs, seeds, kind == RANKER)
    if plot is not None:
        sim_report.write_plot(plot, rows, title)
    if as_json:
        print_json(
            {
                "scenario": asdict(scenario) | {"forecasts": kind},
                "lengths": source.name,
                "scheduler": asdict(config),
                "cost_seconds": asdict(cost),
                "seeds": seeds,
                "policies": [asdict(row) for row in rows],
            }
        )
        return
    sim_report.show(rows, title)


def _engine(
    profile: str,
    sizes: dict[str, int | None],
    step_cost: tuple[float, float, float] | None,
    admission: str,
) -> tuple[SchedulerConfig, CostModel]:
    """The profile's, with what was said otherwise."""
    from engine.core.config import AdmissionConfig, AdmissionMode

    found = options.profile_of(profile)
    cost, config = found.cost, found.config
    if step_cost is not None:
        base, decode, prefill = (milliseconds / 1000.0 for milliseconds in step_cost)
        cost = replace(cost, base=base, decode=decode, prefill=prefill)
    changes: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
    if admission:
        mode = options.choice(admission, tuple(AdmissionMode), "--admission")
        changes["admission"] = AdmissionConfig(AdmissionMode(mode))
    return replace(config, cost=cost, **changes), cost


def _makers(policies: str, cost: CostModel, slots: int) -> Makers:
    """By the names that were given; each is built once to see that it can be."""
    from engine.core.policies import make, names
    from serving.cli.console import UserError

    makers = {}
    for name in dict.fromkeys(names(policies)):
        if name == "fcfs":
            continue
        makers[name] = partial(make, name, cost=cost, batch=slots)
        try:
            makers[name]()
        except ValueError as error:
            raise UserError(f"--policies: {error}") from None
    return makers


def _source(lengths: str, trace: str, ranker: str) -> sources.Source:
    from serving.cli.console import UserError

    if bool(lengths) + bool(trace) + bool(ranker) > 1:
        raise UserError("--lengths, --trace and --forecasts ranker exclude one another: each says "
                        "where lengths come from")  # fmt: skip
    if trace:
        return sources.traced(trace)
    return sources.ranked(ranker) if ranker else sources.read(lengths)


def _shape(arrivals: str, source: sources.Source) -> Arrivals:
    from engine.scenarios import Arrivals
    from serving.cli.console import UserError

    if not arrivals:
        return Arrivals.WAVES if source.trace is None else Arrivals.TRACE
    shape = Arrivals(options.choice(arrivals, tuple(Arrivals), "--arrivals"))
    if shape is Arrivals.TRACE and source.trace is None:
        raise UserError("--arrivals trace needs --trace FILE")
    return shape
