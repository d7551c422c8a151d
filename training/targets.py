"""What the lexical tier learns of each prompt: where its answers stand among those of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.draws import prompt_numbers
from training.lists import rank_shares
from training.sources import Example, Lengths

Floats = NDArray[np.float64]

#: Rows of a served model below which its lengths are ranked among those of all: its own ranks
#: would say little.
LEAST_ROWS = 50


@dataclass(frozen=True, slots=True)
class Targets:
    """``shares`` [rows] in (0, 1) and ``weights`` [rows] of ``prompts``."""

    prompts: list[str]
    shares: Floats
    weights: Floats

    @classmethod
    def of(cls, examples: Sequence[Example], weight: float = 1.0) -> Targets:
        """Rank shares, each model's among its own; those of one prompt become their mean.

        A censored answer stands where it is expected to (:func:`training.lists.rank_shares`). Of
        several served models each is ranked by itself: else the prompts of one with long answers
        would look like prompts for long answers. How long a model's answers are is for its scale
        and its calibration to say.

        A prompt drawn ``k`` times weighs ``weight * 2k / (k + 1)``: the mean of more draws is
        surer, yet what words cannot tell of a prompt does not average out. Where examples have
        weights, ranks are among lengths as they weigh, the mean is weighted, the heaviest draw
        gives the weight, and ``k`` is how many of it all of them are worth.
        """
        each = np.array([e.weight for e in examples], dtype=np.float64)
        shares = _by_model(examples, each)
        prompts = dict.fromkeys(e.prompt for e in examples)  # in the order of the numbers below
        rows = prompt_numbers(examples)
        heaviest = np.zeros(len(prompts))
        np.maximum.at(heaviest, rows, each)
        total = np.bincount(rows, each, len(prompts))
        draws = total / heaviest
        means = np.bincount(rows, each * shares, len(prompts)) / total
        return cls(list(prompts), means, weight * heaviest * 2.0 * draws / (draws + 1.0))

    @classmethod
    def joined(cls, parts: Iterable[Targets]) -> Targets:
        kept = list(parts)
        return cls(
            [prompt for part in kept for prompt in part.prompts],
            np.concatenate([part.shares for part in kept]),
            np.concatenate([part.weights for part in kept]),
        )

    def __len__(self) -> int:
        return len(self.prompts)


def _by_model(examples: Sequence[Example], weights: Floats) -> Floats:
    """Rank shares of ``examples`` among their own model's, [rows]."""
    lengths = Lengths.of(examples)
    shares = rank_shares(lengths.tokens, lengths.censored, weights)
    models = np.array([e.model for e in examples])
    for model in np.unique(models):
        own = models == model
        if LEAST_ROWS <= np.count_nonzero(own) < len(own):
            shares[own] = rank_shares(lengths.tokens[own], lengths.censored[own], weights[own])
    return shares


def gather(own: Sequence[Example], auxiliary: Sequence[Example], weight: float) -> Targets:
    """Rows of what is served, then, with ``weight``, those of every other model, each model's
    lengths as ranks among its own."""
    models = sorted({e.model for e in auxiliary})
    others = (Targets.of([e for e in auxiliary if e.model == m], weight) for m in models)
    return Targets.joined((Targets.of(own), *others))
