"""How many rows a ranker can be trained on at all, whichever tier."""

from __future__ import annotations

from collections.abc import Sequence

from training.sources import Example

#: Rows of a split below which nothing is trained.
LEAST_TRAIN, LEAST_VALIDATION = 50, 20


def enough(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """The ``train`` and the ``validation`` rows of ``examples``.

    Raises ``ValueError`` when either are too few.
    """
    own = [e for e in examples if e.split == "train"]
    held = [e for e in examples if e.split == "validation"]
    if len(own) < LEAST_TRAIN or len(held) < LEAST_VALIDATION:
        raise ValueError(
            f"{len(own)} training and {len(held)} validation rows are too few to train on; at "
            f"least {LEAST_TRAIN} and {LEAST_VALIDATION} are needed"
        )
    return own, held
