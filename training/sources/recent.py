"""Recent traffic as data: outcomes with their prompts, held out by time, the newest counting most.

What a ranker is for is the traffic to come, and the nearest thing to that is the newest traffic
there is: it judges, what came before it trains. A split by hash would let a ranker train on the
very shift that it is judged on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ranker.types import Outcome
from training.sources.example import Data, Example
from training.sources.leaks import without_leaks
from training.sources.lineage import Lineage
from training.sources.outcomes import Asked, example, outcomes, read_prompts, served_models
from training.split import TEST, TRAIN, VALIDATION

#: Half-lives after which a row counts too little to be read (weight below .001).
_HALF_LIVES = 10
#: A row is settled when answers of its time have ended: this share of all took no longer ...
_SETTLED = 0.99
#: ... and no more than this share is given up for it.
_MOST_UNSETTLED = 0.1


@dataclass(frozen=True, slots=True)
class RecencyConfig:
    """How recent traffic is read.

    ``held_out``: the share that is newest and not trained on, the earlier half for validation, the
    newest for the test; at most ``most_held_out`` rows, for after a shift the newest rows are all
    that can be learnt from. ``half_life``: the number of outcomes after which a training row counts
    half. Outcomes, not days: a ranker needs so many rows of the new kind to learn it, however long
    they take to come, and with days a quiet week would leave nothing that counts. All training rows
    together are worth at most 1.44 half-lives. ``least_rows``: below it nothing is trained.
    ``most_rows``: of older ones nothing is read.
    """

    half_life: float = 1000.0
    held_out: float = 0.2
    most_held_out: int = 400
    least_rows: int = 300
    most_rows: int = 200_000

    def __post_init__(self) -> None:
        if not 1.0 <= self.half_life < math.inf:
            raise ValueError(
                f"recency.half_life must be at least 1 outcome and finite, got {self.half_life}"
            )
        if not 0.0 < self.held_out < 1.0:
            raise ValueError(f"recency.held_out must lie inside (0, 1), got {self.held_out}")
        if self.most_held_out < 2:
            raise ValueError(f"recency.most_held_out must be at least 2, got {self.most_held_out}")
        if not 1 <= self.least_rows <= self.most_rows:
            raise ValueError(
                f"recency.least_rows must lie between 1 and most_rows, got {self.least_rows}"
            )


@dataclass(frozen=True, slots=True)
class Recent:
    """Settled rows by ascending arrival, all of one served model, none split yet.

    ``outcomes`` were found for the model, ``joined`` of them with their prompt; of those the last
    ``unsettled`` came so late that longer answers of their time are still missing, which would make
    the newest traffic look short.
    """

    store: Path
    prompts: Path
    served_model: str
    rows: tuple[Example, ...]
    outcomes: int
    joined: int
    unsettled: int

    def after(self, arrival: float) -> list[Example]:
        """Rows that arrived later than Unix second ``arrival``."""
        return [e for e in self.rows if arrival_of(e) > arrival]

    def data(self, config: RecencyConfig) -> tuple[Data, Lineage]:
        """The rows split by time and weighted, and where they are from.

        Rows that arrived at the same moment are on one side. A prompt, or a conversation, that is
        in two splits stays in the later one alone. Raises ``ValueError`` when there are too few.
        """
        if len(self.rows) < config.least_rows:
            raise ValueError(f"{self.found}: too few to train on; at least {config.least_rows} "
                             "outcomes with prompts are needed")  # fmt: skip
        arrivals = [arrival_of(e) for e in self.rows]
        held = min(math.ceil(config.held_out * len(arrivals)), config.most_held_out)
        judged_from, tested_from = arrivals[-held], arrivals[-max(1, held // 2)]
        split = [
            replace(
                e, split=TRAIN if at < judged_from else VALIDATION if at < tested_from else TEST
            )
            for e, at in zip(self.rows, arrivals, strict=True)
        ]
        kept = without_leaks(split)
        training = [e for e in kept if e.split == TRAIN]
        weighted = _weighted(training, config.half_life)
        rest = [e for e in kept if e.split != TRAIN]
        if not weighted:
            raise ValueError(
                f"{self.found}: {len(split) - len(kept)} of them repeat a prompt of the newest "
                f"{held}, which are held out, or came at the same moment, and none "
                f"is left to train on"
            )
        until = arrival_of(weighted[-1])
        skipped = {
            "outcomes without a prompt": self.outcomes - self.joined,
            "came last, while longer answers were under way": self.unsettled,
            f"older than {_HALF_LIVES} half-lives": len(training) - len(weighted),
        }
        data = Data(
            f"outcomes of {self.served_model}",
            self.store.absolute().as_uri(),
            (*weighted, *rest),
            leaks=len(split) - len(kept),
            skipped={why: count for why, count in skipped.items() if count},
        )
        lineage = Lineage(
            store=str(self.store.absolute()),
            prompts=str(self.prompts.absolute()),
            served_model=self.served_model,
            rows=len(weighted),
            trained_from=arrival_of(weighted[0]),
            trained_until=until,
            calibrated_until=max(
                (arrival_of(e) for e in rest if e.split == VALIDATION), default=until
            ),
            seen_until=arrivals[-1],
            half_life=config.half_life,
        )
        return data, lineage

    @property
    def found(self) -> str:
        """What there is, in words."""
        late = f", {self.unsettled:,} of them too recent to judge" if self.unsettled else ""
        return (
            f"{self.store}: {self.outcomes:,} outcomes of {self.served_model}, of which "
            f"{self.joined:,} have a prompt in {self.prompts}{late}"
        )


def read_recent(
    store: Path, prompts: Path, served_model: str = "", config: RecencyConfig | None = None
) -> Recent:
    """Outcomes of ``served_model``, or of the only one there is, with their prompts.

    ``prompts`` is a store of retained ones, or a table as :func:`read_outcomes` takes it; censored
    outcomes and those that were never scored count like all others. Raises ``ValueError`` that says
    exactly what is missing.
    """
    config = config or RecencyConfig()
    store, prompts = Path(store), Path(prompts)
    if not store.is_file():
        raise ValueError(
            f"{store}: no outcomes; nothing was reported yet. shortfirst serve keeps those that "
            f"engines report"
        )
    model, number = _chosen(store, served_model)
    asked = read_prompts(prompts, model)
    matched: list[tuple[Outcome, Asked]] = []
    for outcome in outcomes(store, model, newest_first=True):
        if len(matched) == config.most_rows:
            break
        if (request := asked.get(outcome.request_id)) is not None:
            matched.append((outcome, request))
    if not matched:
        raise ValueError(_nothing_joined(store, prompts, model, number, len(asked)))
    matched.reverse()
    settled = _settled([outcome for outcome, _ in matched])
    rows = tuple(example(outcome, request, TEST) for outcome, request in matched[:settled])
    return Recent(store, prompts, model, rows, number, len(matched), len(matched) - settled)


def arrival_of(e: Example) -> float:
    """Unix second at which a row of live traffic arrived; ``ValueError`` for other rows."""
    if e.origin is None:
        raise ValueError(f"example {e.id} is not of live traffic: it has no arrival")
    return e.origin.arrival


def _chosen(store: Path, served_model: str) -> tuple[str, int]:
    """The served model and how many outcomes it has."""
    models = served_models(store)
    there = ", ".join(f"{name} ({count:,})" for name, count in models.items()) or "none"
    if served_model:
        if served_model not in models:
            raise ValueError(f"{store}: no outcomes of model {served_model}; there are: {there}")
        return served_model, models[served_model]
    if len(models) != 1:
        raise ValueError(
            f"{store}: holds outcomes of {len(models)} models ({there}); a ranker belongs to one, "
            f"name it with --served-model"
            if models
            else f"{store}: holds no outcomes yet"
        )
    return next(iter(models.items()))


def _nothing_joined(store: Path, prompts: Path, model: str, outcomes: int, asked: int) -> str:
    said = f"{store}: {outcomes:,} outcomes of {model}, {asked:,} prompts in {prompts}, "
    if not asked:
        return (
            said + "none of that model: retention has seen no traffic of it yet; let it run, or "
            "give your own prompts with --prompts"
        )
    return (
        said + "and none of the same request id: a caller has to give Rank, as the id of an item, "
        "the request id under which it reports the outcome"
    )


def _settled(by_arrival: Sequence[Outcome]) -> int:
    """How many of the earliest to keep: later ones came less than a long answer's time before the
    last report, so that of their time the short answers alone are in."""
    long = float(np.quantile([o.finished - o.arrival for o in by_arrival], _SETTLED))
    latest = max(o.finished for o in by_arrival) - long
    kept = sum(o.arrival <= latest for o in by_arrival)
    return max(kept, len(by_arrival) - int(_MOST_UNSETTLED * len(by_arrival)))


def _weighted(training: Sequence[Example], half_life: float) -> list[Example]:
    """Weights 1, for the newest, down to ``2 ** -_HALF_LIVES``; what is older is left out."""
    newest = training[-int(min(len(training), math.ceil(_HALF_LIVES * half_life))) :]
    weights = np.exp2(-np.arange(len(newest))[::-1] / half_life)
    return [replace(e, weight=float(w)) for e, w in zip(newest, weights, strict=True)]
