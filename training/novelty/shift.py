"""Is novelty high where order is lost? Other traffic beside one's own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ranker.metrics import order
from ranker.types import NOVEL, Forecast
from training import foreign
from training.forecasts import Forecaster
from training.sources import Example, Lengths

Floats = NDArray[np.float64]
#: Rows of one answering model below which its tau is left out of the mean.
_LEAST_ROWS = 20
#: Sources below which no correlation over them is given.
_LEAST_SOURCES = 4


@dataclass(frozen=True, slots=True)
class ShiftRow:
    """Of one traffic: its distinct ``prompts``; ``auroc``, the chance that one of them is newer
    than one of the usual traffic (Fawcett 2006, ties one half); ``novel``, the share of novelty .95
    or more; ``tau``, the mean over the models that answered, NaN where none has 20 rows."""

    traffic: str
    prompts: int
    auroc: float
    novel: float
    tau: float


@dataclass(frozen=True, slots=True)
class Shift:
    """``usual`` traffic and others. ``equal`` weighs each other traffic alike, ``pooled`` each
    prompt; ``agreement`` is Spearman's rank correlation of ``auroc`` and ``tau`` over the others:
    -1 where novelty is highest where order is worst, NaN below 4 of them or where all are alike."""

    usual: ShiftRow
    others: tuple[ShiftRow, ...]
    equal: float
    pooled: float
    agreement: float


Told = tuple[Sequence[Example], Sequence[Forecast]]


def elsewhere(path: Path, ranker: Forecaster) -> dict[str, Told]:
    """Every source of the Parquet file ``path`` (:mod:`training.foreign`) and what ``ranker``,
    which knows none of the models that answered there, says of it."""
    found: dict[str, Told] = {}
    for source in foreign.sources(path):
        examples = foreign.load(path, source)
        prompts = list(dict.fromkeys(e.prompt for e in examples))
        said = dict(zip(prompts, ranker.forecast(prompts), strict=True))
        found[source] = (examples, [said[e.prompt] for e in examples])
    return found


def shift(usual: Told, others: Mapping[str, Told], name: str = "usual") -> Shift:
    """From examples and forecasts of the ``usual`` traffic, which must be held out, and of others.

    Raises ``ValueError`` without others or where one has no rows.
    """
    if not others:
        raise ValueError("novelty is judged against other traffic; none was given")
    known = _novelties(usual)
    found = {key: _novelties(told) for key, told in others.items()}
    rows = tuple(_row(key, others[key], found[key], known) for key in others)
    return Shift(
        usual=_row(name, usual, known, known),
        others=rows,
        equal=float(np.mean([row.auroc for row in rows])),
        pooled=_auroc(known, np.concatenate(list(found.values()))),
        agreement=_agreement([row.auroc for row in rows], [row.tau for row in rows]),
    )


def _row(name: str, told: Told, novelties: Floats, known: Floats) -> ShiftRow:
    return ShiftRow(
        traffic=name,
        prompts=len(novelties),
        auroc=_auroc(known, novelties),
        novel=float(np.mean(novelties >= NOVEL)),
        tau=_mean_tau(told),
    )


def _novelties(told: Told) -> Floats:
    """Of distinct prompts: what many models answered is one prompt."""
    examples, forecasts = told
    if not examples or len(examples) != len(forecasts):
        raise ValueError("novelty is judged on one forecast per example, at least one")
    each = {e.prompt: f.novelty for e, f in zip(examples, forecasts, strict=True)}
    return np.fromiter(each.values(), np.float64, len(each))


def _auroc(known: Floats, other: Floats) -> float:
    from sklearn.metrics import roc_auc_score

    labels = np.repeat([0, 1], [len(known), len(other)])
    return float(roc_auc_score(labels, np.concatenate((known, other))))


def _mean_tau(told: Told) -> float:
    examples, forecasts = told
    lengths, models = Lengths.of(examples), np.array([e.model for e in examples])
    scores = np.array([f.score for f in forecasts])
    taus = [
        order(scores[rows], lengths.tokens[rows], lengths.censored[rows], resamples=0).tau
        for rows in (np.flatnonzero(models == model) for model in sorted(set(models)))
        if len(rows) >= _LEAST_ROWS
    ]
    defined = [tau for tau in taus if not math.isnan(tau)]
    return float(np.mean(defined)) if defined else math.nan


def _agreement(aurocs: Sequence[float], taus: Sequence[float]) -> float:
    from scipy.stats import spearmanr

    known = [i for i, tau in enumerate(taus) if not math.isnan(tau)]
    news, orders = [aurocs[i] for i in known], [taus[i] for i in known]
    if len(known) < _LEAST_SOURCES or min(len(set(news)), len(set(orders))) < 2:
        return math.nan
    return float(spearmanr(news, orders).statistic)
