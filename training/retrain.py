"""A ranker for the traffic of now, from what came of it: the job that ``train`` then does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from training.enough import enough
from training.half_life import HALF_LIVES, best, taus
from training.lexical_config import LexicalConfig
from training.pipeline import Job, ranker_name
from training.sources import Data, Progress, apart, silent
from training.sources.lineage import Lineage
from training.sources.recent import RecencyConfig, Recent

#: Tag of a run: why it was started.
REASON = "reason"
_LONGEST = 1000  # a tag of MLflow holds 5,000 characters
#: How much a row of former data counts beside another auxiliary one.
_FORMER_WEIGHT = 0.25


@dataclass(frozen=True, slots=True)
class Retraining:
    """``job`` is what to train, ``lineage`` where its rows are from, ``reason`` why. ``tried`` are
    the half-lives that the one of the lineage was chosen from, with the tau-b on validation rows;
    empty when it was given."""

    job: Job
    lineage: Lineage
    reason: str = ""
    tried: Mapping[float, float] = field(default_factory=dict)

    def tags(self) -> dict[str, str]:
        """For the run to remember."""
        said = {REASON: self.reason[:_LONGEST]} if self.reason else {}
        tried = {f"outcomes.half_life.{h:g}": f"{tau:.4f}" for h, tau in self.tried.items()}
        return {**self.lineage.tags(), **tried, **said}


def retraining(
    recent: Recent,
    config: RecencyConfig,
    *,
    choose: LexicalConfig | None = None,
    name: str = "",
    former: Sequence[Data] = (),
    reason: str = "",
    progress: Progress = silent,
) -> Retraining:
    """The job of training on ``recent`` traffic, under ``name`` or that of its served model.

    With ``choose`` the half-life of ``config`` gives way to that of :data:`HALF_LIVES` with which
    words alone, fitted by these settings, order the validation rows best. Rows of ``former`` data
    help, as those of other models do, with a quarter of their weight: lengths as ranks among their
    own. Those that share a prompt or a conversation with held-out rows do not. Raises
    ``ValueError`` when there is too little recent traffic.
    """
    data, lineage = recent.data(config)
    helpers = tuple(extra for each in former if (extra := _former(each, data)).examples)
    tried: dict[float, float] = {}
    if choose is not None:
        enough(data.examples, data.name)  # said before minutes of trying
        tried = taus(recent, config, HALF_LIVES, choose, helpers, progress)
        data, lineage = recent.data(replace(config, half_life=best(tried)))
    job = Job(data, recent.served_model, name or ranker_name(recent.served_model), helpers)
    return Retraining(job, lineage, reason, tried)


def _former(extra: Data, own: Data) -> Data:
    """Training rows of ``extra`` that ``own`` does not hold out, at their weight."""
    kept = apart(extra, own.examples)
    return replace(kept, examples=tuple(replace(e, weight=_FORMER_WEIGHT) for e in kept.examples))
