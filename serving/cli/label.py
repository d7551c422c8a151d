"""``shortfirst label``: how long a model's answers really become."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def label(
    out: Annotated[Path, typer.Option(help="Where the lengths go: .parquet or .jsonl.")],
    prompts: Annotated[
        Path | None,
        typer.Option(
            help="Parquet, JSONL or CSV with a column prompt and optionally id and split. "
            "Default: what opens the conversations of ShareGPT."
        ),
    ] = None,
    endpoint: Annotated[
        str,
        typer.Option(
            help="Address of an OpenAI-compatible API, http://HOST:PORT/v1. Default: an engine "
            "that is started for this run."
        ),
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            help="Default: the only model of the endpoint. Without --endpoint: as of shortfirst "
            "engine, the bundled one by default."
        ),
    ] = "",
    api: Annotated[
        str, typer.Option(help="chat: a prompt is a message; completions: a text to go on with.")
    ] = "chat",
    api_key_env: Annotated[
        str, typer.Option(help="Environment variable with the endpoint's API key.")
    ] = "OPENAI_API_KEY",
    draws: Annotated[int, typer.Option(help="Answers to each prompt, each with its own seed.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    seeded: Annotated[
        bool,
        typer.Option(
            "--seeded/--unseeded",
            help="Send each draw's seed. Some engines cannot take one (vLLM 0.32 on a CPU dies).",
        ),
    ] = True,
    temperature: Annotated[float, typer.Option(help="As the traffic to come is sampled.")] = 0.7,
    top_p: Annotated[float, typer.Option(help="Share of the likeliest tokens to draw from.")] = 1.0,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1: what was there becomes less likely.")
    ] = 1.0,
    max_tokens: Annotated[
        int, typer.Option(help="Longer answers are cut, and marked as censored.")
    ] = 768,
    split: Annotated[
        list[str] | None,
        typer.Option(help="Only prompts of train, validation or test; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option(help="Prompts of each split at most; 0: all.")] = 0,
    most_prompt_chars: Annotated[
        int, typer.Option(help="Leave longer prompts out; 0: none is too long.")
    ] = 0,
    keep_prompts: Annotated[
        bool,
        typer.Option(
            "--keep-prompts",
            help="Write the prompts too, as train --data needs them. Without it the file holds "
            "ids, hashes and numbers only.",
        ),
    ] = False,
    concurrency: Annotated[int, typer.Option(help="Requests in flight.")] = 16,
    timeout: Annotated[float, typer.Option(help="Seconds that one answer may take.")] = 600.0,
    minutes: Annotated[
        float,
        typer.Option(
            help="Ask for nothing more after so long and wait for what is in flight; 0: no end. "
            "Ctrl-C does not wait, and what is in flight then are the long answers."
        ),
    ] = 0.0,
    dtype: Annotated[str, typer.Option(help="Of an engine that is started.")] = "auto",
    threads: Annotated[int, typer.Option(help="Of an engine that is started.")] = 0,
    kv_gib: Annotated[
        float,
        typer.Option(
            help="KV cache of an engine that is started, in GiB; 0: its own default. Too small a "
            "one computes answers twice: all of --concurrency should fit with prompt and answer."
        ),
    ] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a model for answers and write how long they became.

    Can be killed at any time: the same command goes on where it was and asks for no answer twice.
    With more --draws or more prompts it adds to the same file.
    """
    import asyncio
    import os
    import time
    from contextlib import ExitStack
    from dataclasses import asdict

    from engine.bundled import BUNDLED
    from engine.sources import ModelSource
    from serving.cli import console
    from serving.cli.label_progress import Shown
    from serving.label_engine import LabelEngine
    from serving.paths import Home
    from serving.processes import ServiceFailed
    from training.bundled import corpus
    from training.label import asked, table
    from training.label.agreement import agreement
    from training.label.client import Client, EndpointFailed
    from training.label.journal import Journal, journal_of
    from training.label.prompts import choose
    from training.label.run import missing, run
    from training.label.sampling import Sampling
    from training.split import SPLITS

    if api not in ("chat", "completions"):
        raise ValueError(f"--api must be chat or completions, got {api!r}")
    if not minutes >= 0:
        raise ValueError(f"--minutes must be at least 0, got {minutes}")
    table.check(out)
    record = journal_of(out)
    if out.exists() and not record.exists():
        raise ValueError(f"{out}: is there and has no journal beside it; choose another --out")
    home = Home.resolve()
    key = os.environ.get(api_key_env, "")
    name = model or (asyncio.run(_only_model(endpoint, key)) if endpoint else BUNDLED)
    sampling = Sampling(
        model=name if endpoint else ModelSource(name).default_name,
        chat=api == "chat",
        temperature=temperature,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        max_tokens=max_tokens,
        seed=seed if seeded else None,
    )
    every = (
        asked.of_table(prompts) if prompts else asked.of_sharegpt(corpus(home.cache, later=False))
    )
    chosen = choose(every, splits=split or SPLITS, most_chars=most_prompt_chars, limit=limit)
    texts = {prompt.key: prompt.text for prompt in every} if keep_prompts else None
    names = [name for prompt in every for name in (prompt.id, prompt.conversation)]
    table.check(out, [*names, *(texts or {}).values()])
    ended = ""

    async def ask(url: str) -> frozenset[str]:
        end = time.monotonic() + 60.0 * minutes

        def over() -> bool:
            return bool(minutes) and time.monotonic() >= end

        async with Client(url, key, timeout_s=timeout) as client:
            return await run(
                wanted, sampling, client, journal,
                concurrency=concurrency, told=shown.add, over=over,
            )  # fmt: skip

    with Journal(record, sampling) as journal:
        table.rows(journal.labels, sampling, texts)  # refused now, not in the end
        wanted = missing(chosen, draws, journal.labels)
        shown = Shown(len(wanted))
        refused: frozenset[str] = frozenset()  # keys of prompts
        try:
            with ExitStack() as stack:
                url = endpoint
                if wanted and not endpoint:
                    console.note("Starting the engine ...")
                    engine = LabelEngine(name, dtype, threads, concurrency, kv_gib)
                    url = stack.enter_context(engine.started(home.root / "run"))
                if wanted:
                    stack.enter_context(shown)
                    refused = asyncio.run(ask(url))
        except KeyboardInterrupt:
            ended = "stopped"
        except (EndpointFailed, ServiceFailed) as error:
            ended = str(error)
        rows = table.rows(journal.labels, sampling, texts)
    refused |= {x.key for x in journal.labels if x.refused}
    if refused and not rows:
        ended = ended or f"{len(refused):,} prompts were refused and none was answered"
    if rows:
        table.write(out, rows)
    if ended:
        message = (
            f"{ended}; {len(rows):,} lengths are in {out}; the same command goes on from there"
        )
        raise console.UserError(message, status=130 if ended == "stopped" else 1)
    found = agreement([x.example(sampling.model) for x in journal.labels if not x.refused])
    censored = sum(row["finish_reason"] != "stop" for row in rows)
    if json:
        console.print_json(
            {
                "out": str(out),
                "rows": len(rows),
                "prompts": len({row["id"] for row in rows}),
                "censored": censored,
                "refused": len(refused),
                "agreement": {split: asdict(each) for split, each in found.items()},
            }
        )
        return
    console.note(f"{len(rows):,} lengths are in {out}, {censored:,} of them censored")
    if refused:
        console.note(f"{len(refused):,} prompts were refused and lack lengths")
    for split_name, each in found.items():
        console.note(
            f"Two draws of {each.prompts:,} {split_name} prompts agree at tau-b {each.tau:.2f} "
            f"({each.low:.2f} to {each.high:.2f}): no ranker gets far above that"
        )


async def _only_model(endpoint: str, key: str) -> str:
    from serving.cli.console import UserError
    from training.label.client import Client, EndpointFailed, PromptRefused

    try:
        async with Client(endpoint, key) as client:
            names = await client.models()
    except (EndpointFailed, PromptRefused) as error:
        raise UserError(f"{error}; name the model with --model", status=1) from None
    if len(names) != 1:
        raise ValueError(
            f"--model must be named: {endpoint} serves {len(names)} models"
            + (f" ({', '.join(names[:5])})" if names else "")
        )
    return names[0]
