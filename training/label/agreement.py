"""How well one draw orders another: the bound that chance in the answers sets to every ranker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ranker.metrics import Ceiling, ceiling
from ranker.types import FinishReason
from training.split import SPLITS


def agreement(rows: Iterable[Mapping[str, Any]], *, bounds: bool = True) -> dict[str, Ceiling]:
    """tau-b between draws of the same prompts, of each split that has some.

    ``rows`` as :func:`training.label.table.rows` makes them: ``conversation_id``, ``draw``,
    ``output_tokens``, ``finish_reason``, ``split``; of a prompt with one draw nothing is said.
    ``bounds`` as in :func:`ranker.metrics.ceiling`.
    """
    drawn: dict[str, dict[str, dict[int, tuple[int, bool]]]] = {split: {} for split in SPLITS}
    for row in rows:
        prompt = drawn[row["split"]].setdefault(row.get("id") or row["conversation_id"], {})
        cut = FinishReason(row["finish_reason"]).censored
        prompt[row["draw"]] = (row["output_tokens"], cut)
    found = {}
    for split, prompts in drawn.items():
        several = [draws for draws in prompts.values() if len(draws) > 1]
        if several:
            most = 1 + max(max(draws) for draws in several)
            tokens = np.full((len(several), most), np.nan)
            censored = np.zeros((len(several), most), np.bool_)
            for i, draws in enumerate(several):
                for draw, (length, cut) in draws.items():
                    tokens[i, draw], censored[i, draw] = length, cut
            found[split] = ceiling(tokens, censored, bounds=bounds)
    return found
