"""What a command trains on or judges by: the bundled data, or a source of one's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli import tables

if TYPE_CHECKING:
    from training.pipeline import Job
    from training.sources import Progress

Data = Annotated[
    str,
    typer.Option(
        help="A Parquet, JSONL or CSV file (columns prompt, output_tokens and "
        "optionally finish_reason, model, id, draw, split; without id or draw equal rows count "
        "once), openai:LOG.jsonl, outcomes:STORE.db or hf:OWNER/NAME. Default: the bundled data.",
        show_default=False,
    ),
]
Prompts = Annotated[
    Path | None,
    typer.Option(help="File with the prompts of a --data that holds none: outcomes, a batch."),
]
Tokenizer = Annotated[
    Path | None,
    typer.Option(help="tokenizer.json that counts the tokens of answers that are texts."),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        help="What a --data file calls a column of ours, as output_tokens=n. May be repeated.",
        metavar="NAME=COLUMN",
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(help="Tokens from which an answer of a hf: data set was cut off.", min=1),
]
Most = Annotated[int | None, typer.Option(help="Rows of a hf: data set to read at most.", min=1)]

#: Tags of a run: what the options of the same names said.
_DATA, _PROMPTS, _COLUMNS, _LIMIT, _MOST = (
    "data", "data.prompts", "data.columns", "data.limit", "data.most",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """``data`` is a source as :mod:`training.sources.named` reads it, empty for the bundled data
    of ``served_model``, and ``prompts`` to ``most`` are its options. A ``served_model`` of
    ``pooled`` is all models that answered."""

    data: str = ""
    served_model: str = ""
    prompts: Path | None = None
    tokenizer: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    most: int | None = None

    @classmethod
    def of_run(cls, tags: Mapping[str, str], tokenizer: Path | None) -> Wanted:
        """What a run remembers; a run that remembers nothing was of bundled data."""
        prompts, limit, most = (tags.get(name) for name in (_PROMPTS, _LIMIT, _MOST))
        return cls(
            tags.get(_DATA, ""),
            tags.get("served_model", ""),
            Path(prompts) if prompts else None,
            tokenizer,
            json.loads(tags.get(_COLUMNS, "{}")),
            int(limit) if limit else None,
            int(most) if most else None,
        )

    def tags(self) -> dict[str, str]:
        """For a run to remember, so that the gate finds the data from another folder too."""
        said = {
            _DATA: _absolute(self.data) if self.data else "",
            _PROMPTS: str(self.prompts.absolute()) if self.prompts else "",
            _COLUMNS: json.dumps(dict(self.columns)) if self.columns else "",
            _LIMIT: str(self.limit or ""),
            _MOST: str(self.most or ""),
        }
        return {name: value for name, value in said.items() if value}

    def refuse_options(self, fix: str) -> None:
        """Raises ``ValueError`` naming the options that are about data of one's own, if any."""
        given = {
            "--prompts": self.prompts,
            "--column": self.columns,
            "--limit": self.limit,
            "--most": self.most,
        }
        said = [option for option, value in given.items() if value]
        if said:
            raise ValueError(f"{', '.join(said)}: only about --data; {fix}")

    def job(self, name: str, progress: Progress) -> Job:
        """``name`` replaces the name that follows from the model. Raises ``ValueError`` when there
        is no such data."""
        from ranker.length_ranker import POOLED
        from serving.paths import Home
        from training import pipeline
        from training.bundled import corpus
        from training.sharegpt import SERVED_MODEL
        from training.sources import EVERY_MODEL
        from training.sources.named import Options, open_source

        cache = Home.resolve().cache
        if not self.data:
            self.refuse_options("give one")
            bundled = corpus(cache, self.tokenizer, progress)
            made = pipeline.job(bundled, self.served_model or SERVED_MODEL)
        else:
            pooled = self.served_model == POOLED
            options = Options(
                cache,
                self.tokenizer,
                EVERY_MODEL if pooled else self.served_model or None,
                self.prompts,
                self.columns,
                self.limit,
                self.most,
                progress,
            )
            rows = open_source(self.data, options)
            tables.note_leaks(rows)
            model = POOLED if pooled else rows.examples[0].model
            made = pipeline.Job(rows, model, pipeline.ranker_name(model))
        if not name:
            return made
        return pipeline.Job(made.data, made.served_model, name, made.auxiliary)


def named_columns(given: Sequence[str] | None) -> dict[str, str]:
    """``--column`` by our names. Raises ``ValueError`` for one that is not NAME=COLUMN."""
    found = {}
    for each in given or ():
        ours, equals, theirs = each.partition("=")
        if not (ours and equals and theirs) or ours in found:
            raise ValueError(f"--column: {each!r} must be NAME=COLUMN, each name once")
        found[ours] = theirs
    return found


def _absolute(data: str) -> str:
    kind, colon, place = data.rpartition(":")
    folder, mark, files = place.partition("#") if kind == "hf" else (place, "", "")
    return f"{kind}{colon}{Path(folder).absolute()}{mark}{files}" if Path(folder).exists() else data
