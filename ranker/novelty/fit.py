"""Prompts -> a measure of novelty. No lengths are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ranker.novelty.config import NoveltyConfig
from ranker.novelty.contrast import Contrast
from ranker.novelty.distance import Distance
from ranker.novelty.measure import Novelty
from ranker.window import Window

_LEAST = 20  # rows that percentiles are worth anything from
_CHECKED = 5  # every fifth reference judges the contrast before all of them make it


def fit(
    prompts: Sequence[str],
    held: Sequence[str],
    config: NoveltyConfig,
    *,
    references: Sequence[str] = (),
    window: Window,
    seed: int,
) -> Novelty:
    """From training ``prompts``; percentiles are among the ``held`` ones, which must be of the same
    traffic and not trained on. ``references`` are prompts of other traffic; where own prompts
    cannot be told from them, or there are fewer than 100, they count for nothing.

    Raises ``ValueError`` when ``prompts`` or ``held`` has fewer than 20 rows.
    """
    if min(len(prompts), len(held)) < _LEAST:
        raise ValueError(
            f"{len(prompts)} training and {len(held)} validation prompts are too few to "
            f"tell what is new; at least {_LEAST} are needed of each"
        )
    contrast = None
    if len(references) >= _LEAST * _CHECKED:
        contrast = _contrast(prompts, held, references, config, window, seed)
    blank = np.empty((1 if contrast is None else 2, 0))
    return Novelty(
        window,
        Distance.fit(prompts, window, config.shrinkage),
        contrast,
        config.distance_share,
        references=blank,
        combined=blank[0],
    ).referred(held)


def _contrast(
    prompts: Sequence[str],
    held: Sequence[str],
    references: Sequence[str],
    config: NoveltyConfig,
    window: Window,
    seed: int,
) -> Contrast | None:
    """``None`` where own and reference prompts that it has not seen look alike to it."""
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    own = [prompts[i] for i in np.sort(rng.permutation(len(prompts))[: config.most_rows])]
    mixed = [references[i] for i in rng.permutation(len(references))]
    checked, rest = mixed[: len(mixed) // _CHECKED], mixed[len(mixed) // _CHECKED :]
    trial = Contrast.fit(own, rest, config.outlines, window, config.penalty)
    said = trial.of([*held, *checked], window)
    told = roc_auc_score(np.repeat([0, 1], [len(held), len(checked)]), said)
    weight = min(1.0, (float(told) - 0.5) / (config.clear - 0.5))
    if weight <= 0.0:
        return None
    made = Contrast.fit(own, references, config.outlines, window, config.penalty)
    return replace(made, weight=weight)
