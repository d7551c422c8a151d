"""``shortfirst bench spec``: does guessing tokens ahead pay, and up to which load?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli.bench import options

if TYPE_CHECKING:
    from engine.backend import TorchBackend
    from engine.bench.speculation import Row, SpecConfig
    from engine.drafting.speculative import Speculative
    from engine.models import Model
    from serving.engine_setup import EngineSetup

#: What a controller may lose against the better of no drafts and always drafts.
_CLOSE = 0.95
_QUICK = "1,4,16"


def spec(
    model: Annotated[
        str, typer.Option(help="The model that answers, as for shortfirst engine.")
    ] = "smollm2-135m-instruct",
    method: Annotated[
        str, typer.Option(help="Who guesses: ngram, or model with --draft-model.")
    ] = "ngram",
    draft_model: Annotated[
        str, typer.Option(help="A smaller model of the same tokenizer, a folder or hub id.")
    ] = "",
    max_drafts: Annotated[int, typer.Option(help="Guesses of the controller at most.")] = 8,
    always: Annotated[
        int, typer.Option(help="Guesses of the engine that always guesses as many.")
    ] = 8,
    levels: Annotated[str, typer.Option(help="Requests in flight, each tried.")] = "1,2,4,8,16,32",
    tokens: Annotated[int, typer.Option(help="Tokens of an answer at most.")] = 64,
    repeats: Annotated[int, typer.Option(help="Repetitions, the engines in turn.")] = 3,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    threads: Annotated[int, typer.Option(help="As for shortfirst engine.")] = 0,
    kv_gib: Annotated[float, typer.Option(help="KV cache of each engine, GiB.")] = 0.5,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Levels {_QUICK}, two repetitions, 48 tokens.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Tokens per second with guesses against without, as more requests are in flight.

    Three engines of one model answer the same prompts in turn: off guesses nothing, always guesses
    as much as it may in every step, and auto takes the guesses that raise the tokens per second of
    the step, as shortfirst engine --speculate does. Two kinds of prompts: copy, whose answers
    repeat much of the prompt (edit, quote, reformat), and chat, the openings of ShareGPT
    conversations (built-in questions where that package is not installed).

    Few requests leave a step waiting for memory, and verifying eight guesses costs little more than
    one token; many fill the processor, and every wrong guess takes the place of somebody's token.
    So always gains on the left and loses on the right; auto should be near the better of always and
    off at every level. Answers are the same to the token with and without: that is checked.

    Prompts are in the prefix cache when the clock starts, so that decoding is what is timed. Takes
    about four minutes on two cores, --quick one. Leave the machine alone meanwhile.
    """
    from engine.bench.speculation import OFF, SpecConfig, fixed, runs, study
    from engine.drafting.speculative import Speculative
    from serving import drafts, engine_load, engine_setup, logs
    from serving.cli.console import note, print_json, progress
    from serving.paths import Home
    from serving.speculation_setup import Method, SpeculationSetup

    logs.configure("error")
    options.choice(method, [Method.NGRAM, Method.MODEL], "--method")
    if quick:
        levels, repeats, tokens = _QUICK, 2, 48
    sizes = tuple(int(size) for size in options.numbers(levels, "--levels"))
    config = SpecConfig(sizes, tokens, repeats=repeats, temperature=temperature)
    setup = engine_setup.EngineSetup(
        model=model,
        device=device,
        dtype=dtype,
        threads=threads,
        max_num_seqs=max(sizes),
        max_num_batched_tokens=max(512, max(sizes) * (1 + max(always, max_drafts))),
        kv_gib=kv_gib,
        speculation=SpeculationSetup(Method(method), draft_model, max_drafts),
    )
    cache = Home.resolve().cache
    note("Loading the model and timing a few steps ...")
    loaded = engine_load.load(setup, cache)
    setup = engine_setup.with_cost(setup, loaded)
    draft = drafts.load_draft(setup, cache)
    auto = drafts.prepare(setup, loaded, draft)
    assert auto is not None
    engines = _engines(
        setup,
        loaded,
        {
            OFF: None,
            "always": Speculative(fixed(auto.config, always), drafts.drafter(setup, loaded, draft)),
            "auto": auto,
        },
    )
    try:
        asked = _prompts(loaded, config.requests(max(sizes)))
        with progress("Running", runs(config, len(engines), len(asked)), "runs") as bar:
            rows = study(config, engines, asked, bar.update)
    finally:
        for backend in engines.values():
            backend.close()
    if as_json:
        print_json(
            options.report(
                model=loaded.name,
                device=str(loaded.device),
                dtype=str(loaded.dtype).removeprefix("torch."),
                method=method,
                config=config,
                speculation=auto.config,
                rows=rows,
            )
        )
        return
    _print(rows, config, auto, f"{loaded.name}, {str(loaded.dtype).removeprefix('torch.')}")


def _engines(
    setup: EngineSetup, model: Model, kinds: Mapping[str, Speculative | None]
) -> dict[str, TorchBackend]:
    from serving import engine_setup

    return {
        name: engine_setup.starter(setup, model, speculative=speculative)(lambda outcome: None)
        for name, speculative in kinds.items()
    }


def _prompts(model: Model, most: int) -> dict[str, list[list[int]]]:
    from itertools import islice

    from engine.bench import copying

    kinds = {"copy": copying.prompts(), "chat": _chat()}
    return {
        kind: [model.encode_chat([("user", text)]) for text in islice(texts, min(most, 26))]
        for kind, texts in kinds.items()
    }


def _chat() -> Iterator[str]:
    from engine.bench import copying
    from training import sharegpt

    try:
        return (text for text in sharegpt.openings() if 20 < len(text) < 600)
    except ValueError:
        return iter(copying.QUESTIONS)


def _print(rows: Sequence[Row], config: SpecConfig, auto: Speculative, where: str) -> None:
    from serving.cli.console import print_table

    columns = ["prompts", "in flight", "engine", "tokens/s", "/ off", "guesses / step", "stand"]
    print_table(
        [*columns, "tokens / step", "same answers"],
        [
            [
                row.prompts,
                row.level,
                row.engine,
                options.spread(row.tokens_per_second, 0),
                options.spread(row.relative),
                f"{row.drafts:.1f}",
                f"{row.acceptance:.0%}" if row.drafts else "-",
                f"{row.tokens_per_step:.1f}",
                row.same,
            ]
            for row in rows
        ],
        title=f"Guessing ahead on {where}",
        caption=f"{options.plural(config.repeats, 'repetition')}, engines in turn; median (p10-p90)"
        ". Guesses per step: of all requests in flight together.",
    )
    options.say(
        "A step of so many tokens took, when measured at start: "
        + ", ".join(f"{size}: {seconds * 1e3:.1f} ms" for size, seconds in auto.config.steps)
    )
    for line in _verdicts(rows):
        options.say(line)


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """Where guessing always stops to pay, and whether the controller follows."""
    lines = []
    for kind in dict.fromkeys(row.prompts for row in rows):
        mine = {(row.engine, row.level): row for row in rows if row.prompts == kind}
        levels = sorted({level for _, level in mine})
        pays = [level for level in levels if mine["always", level].relative.median >= 1.0]
        upto = f"up to {pays[-1]} in flight" if pays else "at none of these levels"
        more = ", the most tried" if pays and pays[-1] == levels[-1] else ""
        lines.append(f"{kind}: to guess always pays {upto}{more}")
        worst, level = min(
            (mine["auto", at].relative.median / max(1.0, mine["always", at].relative.median), at)
            for at in levels
        )
        lines.append(
            options.verdict(
                worst >= _CLOSE,
                f"{kind}: auto has at least {worst:.0%} of the better of always and off "
                f"({_CLOSE:.0%}), least at {level} in flight",
            )
        )
    same = all(row.same for row in rows)
    lines.append(options.verdict(same, "every answer is the same with and without guesses"))
    return lines
