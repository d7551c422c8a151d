"""Examples -> a calibrated ranker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ranker import calibration, novelty
from ranker.baseline import PromptLengthRanker
from ranker.length_ranker import LengthRanker
from ranker.novelty import Novelty
from ranker.prediction import Prediction
from training.calibrate import calibrated
from training.config import TrainConfig
from training.draws import prompt_numbers
from training.encoder.watch import Step, unwatched
from training.enough import LEAST_VALIDATION as _LEAST_VALIDATION
from training.enough import enough
from training.sources import Example, Lengths, Progress, silent
from training.tiers import fit_tiers


@dataclass(frozen=True)
class TrainedRanker:
    """A ranker, the baseline calibrated on the same rows, and what is to be said of the way there:
    losses by step and numbers, see :class:`training.tiers.FittedModel`."""

    ranker: LengthRanker
    baseline: PromptLengthRanker
    curves: Mapping[str, tuple[float, ...]]
    metrics: Mapping[str, float]


def train(
    examples: Sequence[Example],
    config: TrainConfig,
    *,
    served_model: str,
    name: str,
    auxiliary: Sequence[Example] = (),
    workdir: Path | None = None,
    progress: Progress = silent,
    watch: Callable[[Step], None] = unwatched,
) -> TrainedRanker:
    """Fit on the ``train`` rows, choose and calibrate on the ``validation`` rows; ``test`` is not
    looked at.

    ``auxiliary`` rows are other models' answers, or other turns: they help to learn which words
    ask for much, each model's lengths as ranks among its own, and take no part in calibration.
    ``workdir`` and ``watch`` are as in :func:`training.tiers.fit_tiers`. Same examples, config and
    library versions, same ranker. Raises ``ValueError`` when there are too few rows.
    """
    own, held = enough(examples)
    fitted = fit_tiers(
        examples,
        config,
        served_model=served_model,
        auxiliary=auxiliary,
        workdir=workdir,
        progress=progress,
        watch=watch,
    )
    progress("Calibrating", 0, 1)
    ranker = calibrated(
        fitted.model,
        held,
        fitted.said,
        config.calibration,
        served_model=served_model,
        name=name,
        novelty=_novelty(own, held, config),
    )
    lengths = Lengths.of(held)
    plain = calibration.fit(
        PromptLengthRanker.scores([e.prompt for e in held]),
        lengths.tokens,
        lengths.censored,
        config.calibration,
        groups=prompt_numbers(held),
    )
    progress("Calibrating", 1, 1)
    return TrainedRanker(
        ranker, PromptLengthRanker(plain, served_model), fitted.curves, fitted.metrics
    )


def _novelty(
    own: Sequence[Example], held: Sequence[Example], config: TrainConfig
) -> Novelty | None:
    """Of texts alone: on other traffic, embeddings of the bundled encoder told less than chance."""
    seen = list(dict.fromkeys(e.prompt for e in own))
    known = list(dict.fromkeys(e.prompt for e in held))
    if min(len(seen), len(known)) < _LEAST_VALIDATION:
        return None  # many draws of few prompts say nothing of what is strange
    return novelty.fit(
        seen,
        Prediction(np.empty(len(seen))),
        known,
        Prediction(np.empty(len(known))),
        config.novelty,
        window=config.lexical.window,
        seed=config.seed,
    )
