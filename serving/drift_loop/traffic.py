"""Usual traffic and what it turns into: real prompts with the lengths that their log recorded.

Usual: English questions that open a conversation. Then: program code and other languages, at any
point of one. A ranker of the former orders the latter far worse (tau-b .15 against .41).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from serving.drift_loop.config import SERVED_MODEL
from training.sharegpt import ShareGpt
from training.slices import has_code, not_english
from training.sources import Data, Example, without_leaks
from training.split import TEST, TRAIN, VALIDATION

#: Of the new traffic's training rows, what a ranker trained on them from scratch is calibrated on.
_CALIBRATION = 0.15


@dataclass(frozen=True, slots=True)
class LoopTraffic:
    """``champion``: what the first ranker is trained on. ``usual``: held out from it. ``shifted``:
    the new traffic that the service is shown; ``fresh``: more of it, in no training set.
    ``scratch``: all training rows of the new traffic, split for a ranker of their own."""

    champion: Data = field(repr=False)
    usual: Sequence[Example] = field(repr=False)
    shifted: Sequence[Example] = field(repr=False)
    fresh: Sequence[Example] = field(repr=False)
    scratch: Sequence[Example] = field(repr=False)

    @classmethod
    def of(cls, sharegpt: ShareGpt, usual: int, rng: random.Random) -> LoopTraffic:
        """Raises ``ValueError`` when there is less usual traffic than that."""
        first = without_leaks([turn.example(SERVED_MODEL) for turn in sharegpt.first])
        turns = (*sharegpt.first, *sharegpt.later)
        new = without_leaks([t.example(SERVED_MODEL) for t in turns if _unlike(t.prompt)])
        plain = [e for e in first if not _unlike(e.prompt)]
        held = _shuffled((e for e in plain if e.split == TEST), rng)
        if len(held) < usual:
            raise ValueError(
                f"loop.usual: there are {len(held):,} held-out requests, not {usual:,}"
            )
        training = _shuffled((e for e in new if e.split == TRAIN), rng)
        cut = round(_CALIBRATION * len(training))
        return cls(
            champion=Data("english-openings", sharegpt.source, tuple(plain)),
            usual=held[:usual],
            shifted=training,
            fresh=_shuffled((e for e in new if e.split in (TEST, VALIDATION)), rng),
            scratch=[
                replace(e, split=VALIDATION if i < cut else TRAIN) for i, e in enumerate(training)
            ],
        )


def _unlike(prompt: str) -> bool:
    return has_code(prompt) or not_english(prompt)


def _shuffled(examples: Iterable[Example], rng: random.Random) -> list[Example]:
    found = list(examples)
    rng.shuffle(found)
    return found
