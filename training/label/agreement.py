"""How well one draw orders another: the bound that chance in the answers sets to every ranker."""

from __future__ import annotations

from collections.abc import Sequence

from ranker.metrics import Ceiling, ceiling
from training.draws import Draws
from training.sources import Example
from training.split import SPLITS


def agreement(examples: Sequence[Example], *, bounds: bool = True) -> dict[str, Ceiling]:
    """tau-b between draws of the same prompts, of each split that has several of some.

    ``bounds`` as in :func:`ranker.metrics.ceiling`.
    """
    found = {}
    for split in SPLITS:
        draws = Draws.of([e for e in examples if e.split == split])
        if draws.several.any():
            found[split] = ceiling(draws.tokens, draws.censored, bounds=bounds)
    return found
