"""What a command trains on or judges by: the bundled data, or a table of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from serving.cli import tables

if TYPE_CHECKING:
    from training.pipeline import Job
    from training.sources import Progress

#: Tag of a run: what ``--data`` said.
DATA_TAG = "data"
BUNDLED = "bundled"


def job(data: str, served_model: str, name: str, tokenizer: Path | None, progress: Progress) -> Job:
    """The job for ``data``, empty for the bundled one; of ``served_model`` where there are several.

    ``name`` replaces the name that follows from the model; ``tokenizer`` counts the tokens of the
    bundled data. Raises ``ValueError`` when there is no such data.
    """
    from serving.paths import Home
    from training import pipeline
    from training.bundled import corpus
    from training.sources import read_table

    if data in ("", BUNDLED):
        found = corpus(Home.resolve().cache, tokenizer, progress)
        made = pipeline.job(found, served_model or pipeline.SERVED_MODEL)
    else:
        rows = read_table(Path(data), served_model or None)
        tables.note_leaks(rows)
        model = rows.examples[0].model
        made = pipeline.Job(rows, model, pipeline.ranker_name(model))
    return pipeline.Job(made.data, made.served_model, name, made.auxiliary) if name else made


def tag(data: str) -> str:
    """How a run remembers ``data``, so that the gate finds it from another folder too."""
    return str(Path(data).absolute()) if Path(data).exists() and data else data or BUNDLED
