"""Prompts on two sides of a split: a ranker that has seen them would be praised for its memory."""

from __future__ import annotations

from collections.abc import Sequence

from training.sources.example import Example
from training.split import SPLITS, plain


def without_leaks(examples: Sequence[Example]) -> list[Example]:
    """Drop training rows whose prompt is also held out, and validation rows that are in test.

    Prompts are compared as :func:`training.split.plain` reads them.
    """
    seen: dict[str, set[str]] = {split: set() for split in SPLITS}
    for e in examples:
        seen[e.split].add(plain(e.prompt))
    kept = []
    for e in examples:
        text = plain(e.prompt)
        if e.split == "train" and (text in seen["test"] or text in seen["validation"]):
            continue
        if e.split == "validation" and text in seen["test"]:
            continue
        kept.append(e)
    return kept
