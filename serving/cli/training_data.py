"""What a command trains on or judges by: the bundled data, or a source of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from serving.cli import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from training.pipeline import Job
    from training.sources import Progress

Data = Annotated[
    str,
    typer.Option(
        help="A Parquet, JSONL or CSV file (columns prompt, output_tokens and "
        "optionally finish_reason, model, id, split), openai:LOG.jsonl, outcomes:STORE.db or "
        "hf:OWNER/NAME. Default: the bundled data.",
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

#: Tags of a run: what ``--data`` and ``--prompts`` said.
_DATA_TAG, _PROMPTS_TAG = "data", "data.prompts"


@dataclass(frozen=True, slots=True)
class Wanted:
    """``data`` is a source as :mod:`training.sources.named` reads it, empty for the bundled data
    of ``served_model``."""

    data: str = ""
    served_model: str = ""
    prompts: Path | None = None
    tokenizer: Path | None = None

    @classmethod
    def of_run(cls, tags: Mapping[str, str], tokenizer: Path | None) -> Wanted:
        """What a run remembers; a run that remembers nothing was of bundled data."""
        prompts = tags.get(_PROMPTS_TAG)
        return cls(
            tags.get(_DATA_TAG, ""),
            tags.get("served_model", ""),
            Path(prompts) if prompts else None,
            tokenizer,
        )

    def tags(self) -> dict[str, str]:
        """For a run to remember, so that the gate finds the data from another folder too."""
        found = {_DATA_TAG: _absolute(self.data)} if self.data else {}
        return found | ({_PROMPTS_TAG: str(self.prompts.absolute())} if self.prompts else {})

    def job(self, name: str, progress: Progress) -> Job:
        """``name`` replaces the name that follows from the model. Raises ``ValueError`` when there
        is no such data."""
        from serving.paths import Home
        from training import pipeline
        from training.bundled import corpus
        from training.sharegpt import SERVED_MODEL
        from training.sources.named import Options, open_source

        cache = Home.resolve().cache
        if not self.data:
            bundled = corpus(cache, self.tokenizer, progress)
            made = pipeline.job(bundled, self.served_model or SERVED_MODEL)
        else:
            options = Options(
                cache,
                self.tokenizer,
                self.served_model or None,
                self.prompts,
                progress=progress,
            )
            rows = open_source(self.data, options)
            tables.note_leaks(rows)
            model = rows.examples[0].model
            made = pipeline.Job(rows, model, pipeline.ranker_name(model))
        if not name:
            return made
        return pipeline.Job(made.data, made.served_model, name, made.auxiliary)


def _absolute(data: str) -> str:
    kind, colon, place = data.rpartition(":")
    return f"{kind}{colon}{Path(place).absolute()}" if Path(place).exists() else data
