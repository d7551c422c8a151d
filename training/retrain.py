"""A ranker for the traffic of now, from what came of it: the job that ``train`` then does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from training.pipeline import Job, ranker_name
from training.sources import Data, Example
from training.sources.lineage import Lineage
from training.sources.recent import RecencyConfig, Recent
from training.split import TRAIN, plain

#: Tag of a run: why it was started.
REASON = "reason"
_LONGEST = 1000  # a tag of MLflow holds 5,000 characters


@dataclass(frozen=True, slots=True)
class Retraining:
    """``job`` is what to train, ``lineage`` where its rows are from, ``reason`` why."""

    job: Job
    lineage: Lineage
    reason: str = ""

    def tags(self) -> dict[str, str]:
        """For the run to remember."""
        said = {REASON: self.reason[:_LONGEST]} if self.reason else {}
        return {**self.lineage.tags(), **said}


def retraining(
    recent: Recent,
    config: RecencyConfig,
    *,
    name: str = "",
    former: Sequence[Data] = (),
    reason: str = "",
) -> Retraining:
    """The job of training on ``recent`` traffic, under ``name`` or that of its served model.

    Rows of ``former`` data help, as those of other models do: with less weight, lengths as ranks
    among their own. Those that share a prompt or a conversation with held-out rows do not. Raises
    ``ValueError`` when there is too little recent traffic.
    """
    data, lineage = recent.data(config)
    helpers = tuple(_apart(extra, data) for extra in former)
    job = Job(
        data,
        recent.served_model,
        name or ranker_name(recent.served_model),
        tuple(extra for extra in helpers if extra.examples),
    )
    return Retraining(job, lineage, reason)


def _apart(extra: Data, own: Data) -> Data:
    """Training rows of ``extra`` that ``own`` does not hold out."""
    held = [e for e in own.examples if e.split != TRAIN]
    prompts = {plain(e.prompt) for e in held}
    talks = {e.conversation for e in held if e.conversation}

    def fits(e: Example) -> bool:
        return e.split == TRAIN and plain(e.prompt) not in prompts and e.conversation not in talks

    return replace(extra, examples=tuple(filter(fits, extra.examples)))
