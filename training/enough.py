"""How many rows a ranker can be trained on and judged by at all, whichever tier."""

from __future__ import annotations

from collections.abc import Sequence

from training.evaluate import LEAST_ROWS
from training.sources import Example
from training.split import TEST, TRAIN, VALIDATION

#: Rows of a split below which nothing is trained.
LEAST_TRAIN, LEAST_VALIDATION = 50, 20


def enough(examples: Sequence[Example], source: str = "") -> tuple[list[Example], list[Example]]:
    """The ``train`` and the ``validation`` rows of ``examples``.

    Raises ``ValueError`` when either are too few, naming ``source``, where it is given, and what to
    do.
    """
    own = [e for e in examples if e.split == TRAIN]
    held = [e for e in examples if e.split == VALIDATION]
    if len(own) < LEAST_TRAIN or len(held) < LEAST_VALIDATION:
        raise ValueError(
            f"{_where(examples, source)}{len(own)} training and {len(held)} validation rows are "
            f"too few to train on; at least {LEAST_TRAIN} and {LEAST_VALIDATION} are needed: "
            f"{_fix(examples)}"
        )
    return own, held


def enough_to_judge(
    examples: Sequence[Example], source: str = "", split: str = TEST
) -> list[Example]:
    """The ``split`` rows of ``examples``; raises ``ValueError`` as :func:`enough` does."""
    held = [e for e in examples if e.split == split]
    if len(held) < LEAST_ROWS:
        raise ValueError(
            f"{_where(examples, source)}{len(held)} {split} rows are too few to judge a ranker by; "
            f"at least {LEAST_ROWS} are needed: {_fix(examples)}"
        )
    return held


def _live(examples: Sequence[Example]) -> bool:
    """Whether they are outcomes, which no column splits."""
    return any(e.origin is not None for e in examples)


def _where(examples: Sequence[Example], source: str) -> str:
    column = "" if _live(examples) else "column split: "
    return f"{source}: {column}" if source else column


def _fix(examples: Sequence[Example]) -> str:
    if _live(examples):
        return "wait for more traffic"
    return (
        "give more rows, or say in the column which are train, validation and test; without it a "
        "hash of the prompt does (60 %, 10 %, 10 %)"
    )
