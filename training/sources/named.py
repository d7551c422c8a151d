"""Sources by name, for a command line: ``sharegpt``, ``rows.parquet``, ``hf:tatsu-lab/alpaca``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from training import sharegpt, smollm2
from training.bundled import corpus
from training.sources.example import Data
from training.sources.hub import read_hub
from training.sources.openai_log import read_openai_log
from training.sources.outcomes import read_outcomes
from training.sources.progress import Progress, silent
from training.sources.table import read_table

TABLES = (".parquet", ".jsonl", ".json", ".csv")


@dataclass(frozen=True, slots=True)
class Options:
    """What a source may need besides its name.

    ``cache``: where the bundled model and token counts are kept. ``tokenizer`` counts answers that
    are texts; the bundled model's when absent, where the data is bundled. ``served_model``: whose
    answers, ``*`` for all. ``prompts``: the file with the prompts that a source has not got, by
    request id or, for a batch, its input. ``columns``: what a table calls ours. ``limit``: tokens
    from which an answer was cut off. ``most``: rows of a hub data set to read.
    """

    cache: Path
    tokenizer: Path | None = None
    served_model: str | None = None
    prompts: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    most: int | None = None
    progress: Progress = silent


def open_source(spec: str, options: Options) -> Data:
    """The data that ``spec`` names. Raises ``ValueError``: for an unknown name one that lists what
    there is, and for an option that says nothing of such a source."""
    kind, colon, place = spec.partition(":")
    of_hub = bool(colon) and kind == "hf"
    for name, says in (
        ("columns", kind not in _KINDS and spec not in _BUNDLED),
        ("limit", of_hub),
        ("most", of_hub),
    ):
        if getattr(options, name) and not says:
            raise ValueError(f"{name}: says nothing of data {spec!r}; leave it away")
    if spec in _BUNDLED:
        return _BUNDLED[spec](options)
    if colon and place and kind in _KINDS:
        return _KINDS[kind](place, options)
    if spec.lower().endswith(TABLES):
        return read_table(Path(spec), options.served_model, columns=options.columns)
    raise ValueError(f"data {spec!r}: no such source; there are {', '.join(SPECS)}")


def _sharegpt(options: Options) -> Data:
    return corpus(options.cache, options.tokenizer, options.progress).data()


def _later(options: Options) -> Data:
    return corpus(options.cache, options.tokenizer, options.progress).auxiliary()


def _own_lengths(options: Options) -> Data:
    return smollm2.load(corpus(options.cache, options.tokenizer, options.progress))


def _openai(place: str, options: Options) -> Data:
    return read_openai_log(Path(place), options.served_model, requests=options.prompts)


def _outcomes(place: str, options: Options) -> Data:
    if options.prompts is None:
        raise ValueError(
            f"outcomes {place}: the store holds no prompts; give a table of request_id and prompt "
            "with --prompts"
        )
    return read_outcomes(Path(place), options.prompts, options.served_model)


def _hub(place: str, options: Options) -> Data:
    if options.tokenizer is None:
        raise ValueError(
            f"data set {place}: its answers are texts; give the served model's tokenizer.json "
            "with --tokenizer"
        )
    name, _, files = place.partition("#")
    return read_hub(
        name,
        options.tokenizer,
        options.served_model,
        files=files or None,
        limit=options.limit,
        most=options.most,
        progress=options.progress,
    )


_BUNDLED: dict[str, Callable[[Options], Data]] = {
    sharegpt.SERVED_MODEL: _sharegpt,
    sharegpt.LATER_MODEL: _later,
    smollm2.SERVED_MODEL: _own_lengths,
}
_KINDS: dict[str, Callable[[str, Options], Data]] = {
    "openai": _openai,
    "outcomes": _outcomes,
    "hf": _hub,
}
#: How sources are named.
SPECS = (
    *_BUNDLED,
    *(f"a {suffix} file" for suffix in TABLES),
    "openai:LOG.jsonl",
    "outcomes:STORE.db",
    "hf:OWNER/NAME[#FILE] or hf:FOLDER",
)
