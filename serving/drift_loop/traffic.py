"""Usual traffic and what it turns into: real prompts with the lengths that their log recorded.

Usual: English questions that open a conversation (ShareGPT). Then, from the same package, program
code and other languages at any point of one; or another service's traffic, from the shared data.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from serving.drift_bench.catalogue import FOREIGN
from serving.drift_bench.traffic import rows_of
from serving.drift_loop.config import SERVED_MODEL
from training.sharegpt import ShareGpt
from training.slices import has_code, not_english
from training.sources import Data, Example, without_leaks
from training.split import TEST, TRAIN, VALIDATION

#: Of the new traffic's training rows, what a ranker trained on them from scratch is calibrated on.
_CALIBRATION = 0.15
#: Of another service's prompts, what stays out of all training.
_FRESH = 0.25
_MOST = 4000
OTHERS = tuple(each.name for each in FOREIGN)


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
    def of(
        cls, sharegpt: ShareGpt, usual: int, rng: random.Random, other: Sequence[Example] = ()
    ) -> LoopTraffic:
        """``other``: what it turns into, in place of the bundled. Raises ``ValueError`` when there
        is less usual traffic than ``usual``."""
        first = without_leaks([turn.example(SERVED_MODEL) for turn in sharegpt.first])
        plain = [e for e in first if not _unlike(e.prompt)]
        turns = (*sharegpt.first, *sharegpt.later)
        new = without_leaks(other or [t.example(SERVED_MODEL) for t in turns if _unlike(t.prompt)])
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


def other_traffic(name: str, folder: Path, rng: random.Random) -> list[Example]:
    """Rows of another service's traffic, at most 4,000, split by prompt; all under one name, as
    one served model's would be. Raises ``ValueError`` for one that is not known or not there."""
    found = next((each for each in FOREIGN if each.name == name), None)
    if found is None:
        raise ValueError(f"--traffic: no {name!r}; there are {', '.join(OTHERS)}")
    rows = rows_of(folder / found.file, found.source, found.model)
    prompts = sorted({e.prompt for e in rows})
    fresh = set(rng.sample(prompts, round(_FRESH * len(prompts))))
    kept = rng.sample(rows, min(len(rows), _MOST))
    return [
        replace(e, model=SERVED_MODEL, conversation="", split=TEST if e.prompt in fresh else TRAIN)
        for e in kept
    ]


def _unlike(prompt: str) -> bool:
    return has_code(prompt) or not_english(prompt)


def _shuffled(examples: Iterable[Example], rng: random.Random) -> list[Example]:
    found = list(examples)
    rng.shuffle(found)
    return found
