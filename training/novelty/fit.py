"""Examples -> what tells prompts that are unlike them."""

from __future__ import annotations

from collections.abc import Sequence

from ranker import novelty
from ranker.novelty import Novelty
from training.config import TrainConfig
from training.novelty.references import reference_prompts
from training.sources import Example

_LEAST = 20  # many draws of few prompts say nothing of what is strange


def novelty_of(
    own: Sequence[Example], held: Sequence[Example], config: TrainConfig
) -> Novelty | None:
    """From the distinct prompts of training rows ``own``, as percentiles among those of validation
    rows ``held``; ``None`` when either are fewer than 20."""
    seen = list(dict.fromkeys(e.prompt for e in own))
    known = list(dict.fromkeys(e.prompt for e in held))
    if min(len(seen), len(known)) < _LEAST:
        return None
    return novelty.fit(
        seen,
        known,
        config.novelty,
        references=reference_prompts(),
        window=config.lexical.window,
        seed=config.seed,
    )
