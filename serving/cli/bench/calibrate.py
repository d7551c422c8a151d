"""``shortfirst bench calibrate``: what the steps of a real engine cost, and what that predicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import lengths as sources
from serving.cli.bench import options

if TYPE_CHECKING:
    from engine.bench.calibrate import Calibration
    from engine.core.config import SchedulerConfig
    from engine.engine_profiles import EngineProfile
    from engine.models import Model

#: Within this much the simulator may be trusted: what the project promises.
_TARGET = 0.10


def calibrate(
    model: Annotated[
        str, typer.Option(help="The bundled model, a folder with a causal LM, or an id on the hub.")
    ] = "smollm2-135m-instruct",
    policy: Annotated[str, typer.Option(help="See shortfirst engine.")] = "fcfs",
    lengths: sources.Option = sources.BUNDLED,
    segments: Annotated[
        int, typer.Option(help="Stretches of traffic, an odd number; every second one is held out.")
    ] = 11,
    requests: Annotated[int, typer.Option(help="Requests in each.")] = 32,
    utilisation: Annotated[
        float, typer.Option(help="Load as a share of what full batches can do.")
    ] = 0.7,
    longest_prompt: Annotated[
        int, typer.Option(help="Prompts are scaled down to so many tokens.")
    ] = 192,
    longest_output: Annotated[
        int, typer.Option(help="Answers are scaled down to so many tokens.")
    ] = 160,
    slots: Annotated[int, typer.Option(help="Requests that run at once.")] = 8,
    token_budget: Annotated[int, typer.Option(help="Tokens of one step at most.")] = 512,
    block_size: Annotated[int, typer.Option(help="Tokens per KV block.")] = 32,
    kv_gib: Annotated[float, typer.Option(help="KV cache in GiB; 0: as shortfirst engine.")] = 0.0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    threads: Annotated[
        int, typer.Option(help="Threads of a step on a CPU; 0: all cores but one.")
    ] = 0,
    clock: Annotated[
        str,
        typer.Option(
            help="wall, or processor: seconds that this process ran, which leaves out what other "
            "programs take from a busy machine; on a CPU with one thread."
        ),
    ] = "wall",
    seed: Annotated[int, typer.Option(help="Decides lengths, arrivals and prompts.")] = 0,
    save: Annotated[
        Path | None,
        typer.Option(help="Write the profile (.toml or .json) that --profile of others reads."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Fit a cost model to a real engine, then predict traffic it was not fitted to.

    Starts the engine in this process and sends it requests as they arrive in real time, with
    lengths imposed. Every second stretch of traffic is held out: the simulator replays its arrivals
    on the fitted costs, at the pace at which the machine ran just before and after, and both
    latencies are printed side by side. Takes a minute or two on one core; on a machine that others
    use, compare processor times (--clock processor), or most of the error is theirs.
    """
    import os
    from dataclasses import replace

    # Before torch loads OpenMP; see shortfirst engine.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

    from engine.bench.calibrate import CalibrateConfig
    from engine.bench.calibrate import calibrate as study
    from engine.bench.clocks import ClockKind, ProcessorClock, WallClock
    from engine.bench.drive import Driver
    from engine.core.lanes import LaneConfig
    from serving import engine_load, engine_setup, logs
    from serving.cli.console import note, print_json, progress
    from serving.lanes_file import LaneSpec
    from serving.paths import Home

    logs.configure("error")
    if save is not None and save.suffix not in (".toml", ".json"):
        raise ValueError(f"--save must end in .toml or .json, got {save.name}")
    if clock not in list(ClockKind):
        raise ValueError(f"--clock must be wall or processor, got {clock!r}")
    config = CalibrateConfig(segments, requests, utilisation, longest_prompt, longest_output, seed)
    setup = engine_setup.EngineSetup(
        model=model,
        lanes=(LaneSpec(LaneConfig("default"), policy),),
        device=device,
        dtype=dtype,
        threads=threads,
        max_num_seqs=slots,
        max_num_batched_tokens=token_budget,
        block_size=block_size,
        kv_gib=kv_gib,
    )
    drawn = sources.read(lengths)
    loaded = engine_load.load(setup, Home.resolve().cache)
    timer = ProcessorClock() if clock == ClockKind.PROCESSOR else WallClock()
    if clock == ClockKind.PROCESSOR:
        _check_one_thread(loaded)
    note("Timing a few steps, to know how fast requests may come ...")
    # A little room on the host is enough to time a swap.
    rough = engine_setup.measure(replace(setup, swap_gib=0.05), loaded, timer.now)
    setup = replace(setup, cost=rough)
    backend = engine_setup.starter(setup, loaded, timer.now)(lambda outcome: None)
    try:
        driver = Driver(backend, timer, loaded.config.vocab_size, seed)
        with progress("Running", segments, "segments") as bar:
            found = study(
                config,
                drawn.lengths,
                backend.config,
                lambda: setup.build_lanes(rough),
                rough,
                driver.run,
                bar.update,
            )
    finally:
        backend.close()
    kind = f"{loaded.name}, {str(loaded.dtype).removeprefix('torch.')} on {loaded.device.type}"
    kind += ", processor time" if clock == ClockKind.PROCESSOR else ""
    profile = _profile(loaded.name, kind, found, replace(backend.config, cost=rough))
    if save is not None:
        profile.save(save)
        note(f"Wrote {save}")
    if as_json:
        print_json(options.report(profile=profile, config=config, lengths=drawn.name,
                                  calibration=found, compared=found.compared()))  # fmt: skip
        return
    _print(found, profile)


def _check_one_thread(model: Model) -> None:
    """Raises ``ValueError`` unless one thread of this process does all the work of a step."""
    import torch

    if model.device.type != "cpu" or torch.get_num_threads() > 1:
        raise ValueError("processor time needs a CPU and one thread: --device cpu --threads 1")


def _profile(name: str, kind: str, found: Calibration, config: SchedulerConfig) -> EngineProfile:
    from dataclasses import replace

    from engine.engine_profiles import EngineProfile

    assert config.cost is not None
    return EngineProfile(
        name=name,
        cost=replace(found.fit.cost, swap=config.cost.swap),
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        block_size=config.block_size,
        num_blocks=config.num_blocks,
        host_blocks=config.host_blocks,
        source=f"bench calibrate: {kind}, {found.fit.steps} steps, R2 {found.fit.r_squared:.2f}; "
        f"of {found.real.requests} requests held out, E2EL is simulated {found.error('mean'):+.1%} "
        f"off in the mean and {found.error('p99'):+.1%} at p99",
    )


def _print(found: Calibration, profile: EngineProfile) -> None:
    from serving.cli.console import print_table

    print_table(
        ["held out", "real (s)", "simulated (s)", "error"],
        [
            [row.name, f"{row.real:.3g}", f"{row.simulated:.3g}", f"{row.error:+.1%}"]
            for row in found.compared()
        ],
        title=f"{profile.name}: {found.real.requests} requests that the fit never saw",
        caption="Same arrivals and lengths, in real time and in the simulator.",
    )
    cost = profile.cost
    typer.echo(
        f"A step takes {cost.base * 1e3:.2f} ms + {cost.decode * 1e3:.3f} ms a decode "
        f"+ {cost.prefill * 1e3:.3f} ms a prefilled token + {cost.context * 1e6:.2f} us a token "
        f"of context; a swapped token {cost.swap * 1e6:.1f} us one way "
        f"({found.fit.steps} steps, R2 {found.fit.r_squared:.2f})"
    )
    typer.echo(
        f"Segments took {min(found.paces):.2f} to {max(found.paces):.2f} of the mean pace; "
        f"held-out steps took {found.drift:.3f} times what their neighbours said"
    )
    mean, p99 = found.error("mean"), found.error("p99")
    typer.echo(
        options.verdict(
            max(abs(mean), abs(p99)) <= _TARGET,
            f"mean E2EL {mean:+.1%}, p99 E2EL {p99:+.1%} (within {_TARGET:.0%} of the real engine)",
        )
    )
