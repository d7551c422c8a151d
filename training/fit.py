"""Examples -> a calibrated ranker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ranker import calibration
from ranker.baseline import PromptLengthRanker
from ranker.length_ranker import LengthRanker
from training.calibrate import calibrated
from training.config import TrainConfig
from training.draws import prompt_numbers
from training.encoder.watch import Step, unwatched
from training.enough import enough
from training.novelty.fit import novelty_of
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
        novelty=novelty_of(own, held, config),
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
