"""Data sets of the Hugging Face hub, or of a folder laid out like one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ranker.types import FinishReason
from training.sources.assemble import EVERY_MODEL, assembled, split_by_hash
from training.sources.duplicates import Repeats
from training.sources.example import Data, Example
from training.sources.progress import Progress, silent
from training.sources.schemas import Exchange, NotText, Schema, schema_of
from training.sources.tokens import TokenCounter
from training.split import RESERVED, plain

#: The one file to read of a data set whose files differ in layout.
FILES = {"anon8231489123/ShareGPT_Vicuna_unfiltered": "ShareGPT_V3_unfiltered_cleaned_split.json"}
#: Data sets whose files are of several models, which the rows do not tell apart.
MIXED = ("LLM-ltr/Llama3-Trace",)
_BATCH = 1000


def read_hub(
    name: str,
    tokenizer: Path,
    served_model: str | None = None,
    *,
    files: str | None = None,
    part: str = "train",
    later: bool = False,
    limit: int | None = None,
    most: int | None = None,
    progress: Progress = silent,
) -> Data:
    """Examples of data set ``name`` (a hub id or a folder), streamed: no copy is kept.

    Its layout is told by its columns (:mod:`training.sources.schemas`). Answers are texts, counted
    with ``tokenizer``: lengths are those of ``served_model`` only when it is that model's. An
    answer of ``limit`` tokens or more was cut off. Opening turns only, unless ``later``. ``files``
    picks files of the data set, ``part`` its split, ``most`` its first rows; our own splits are by
    conversation, or else by prompt. Messages in parts are the text of their parts. What has no
    text, and a row of a layout without ids that is the same as an earlier one, counts in
    ``Data.skipped``. Raises ``ValueError`` when the data set cannot be read, is of no known layout
    or holds several models' answers, and naming row and column of what should be text and is not.
    """
    if name in MIXED and files is None:
        raise ValueError(f"{name}: its files are of several models; name one, as hf:{name}#FILE")
    tokens = TokenCounter(tokenizer)
    wanted = None if served_model == EVERY_MODEL else served_model
    rows = islice(_rows(name, files or FILES.get(name), part), most)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{name}: no rows in {part}")
    schema = schema_of(name, first)
    skipped: Counter[str] = Counter()
    found: list[Example] = []
    exchanges = _exchanges(name, schema, chain((first,), rows), later, wanted, skipped)
    cap = limit or schema.limit or math.inf
    while batch := list(islice(exchanges, _BATCH)):
        asked = tokens([e.question for e in batch])
        answered = tokens([e.answer for e in batch])
        for exchange, size, length in zip(batch, asked, answered, strict=True):
            split = split_by_hash(exchange.question, exchange.conversation)
            if split != RESERVED:
                found.append(_example(exchange, split, size, length, length >= cap))
        progress("Counting tokens", len(found), len(found) + 1)
    return assembled(
        Path(name).name,
        Path(name).absolute().as_uri() if Path(name).is_dir() else f"hf:{name}",
        found,
        where=name,
        served_model=served_model,
        skipped=skipped,
    )


def _exchanges(
    name: str,
    schema: Schema,
    rows: Iterable[Mapping[str, Any]],
    later: bool,
    served_model: str | None,
    skipped: Counter[str],
) -> Iterator[Exchange]:
    """Those that count, each with an id and a model; others are counted in ``skipped``."""
    repeats = Repeats("a table of your own with a column id or draw")
    for number, row in enumerate(rows, 1):
        try:
            found = list(schema.read(row))
        except NotText as error:
            raise ValueError(f"{name}: row {number}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{name}: row {number}: not as {schema.name} has it ({type(error).__name__})"
            ) from None
        for exchange in found:
            model = exchange.model or served_model or schema.model or "default"
            if (exchange.depth and not later) or served_model not in (None, model):
                continue
            if not exchange.question.strip():
                skipped["a question of blanks"] += 1
            elif not exchange.answer.strip():
                skipped["an empty answer"] += 1
            elif not exchange.id and repeats.again(
                plain(exchange.question), model, exchange.answer
            ):
                skipped[repeats.reason] += 1
            else:
                yield replace(exchange, model=model, id=exchange.id or f"row-{number}")


def _example(
    exchange: Exchange, split: str, prompt_tokens: int, output_tokens: int, cut: bool
) -> Example:
    return Example(
        exchange.question,
        output_tokens,
        FinishReason.LENGTH if cut else FinishReason.STOP,
        exchange.model,
        id=exchange.id,
        split=split,
        prompt_tokens=prompt_tokens,
        conversation=exchange.conversation,
    )


def _rows(name: str, files: str | None, part: str) -> Iterator[Mapping[str, Any]]:
    from datasets import load_dataset

    try:
        yield from load_dataset(name, data_files=files, split=part, streaming=True)
    except StopIteration:  # how datasets takes an empty file
        return
    except (OSError, ValueError) as error:
        # Of the hub it says what is wrong; of a parser, it might quote what was read.
        why = str(error).split("\n")[0] if isinstance(error, OSError) else type(error).__name__
        raise ValueError(f"{name}: not readable as a data set: {why}") from None
