"""A plan as one packed row of tokens, which every backend begins from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core.plan import Plan, Step

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Packed:
    """``steps`` in the order of their rows: those of one token that sample first, then the rest.

    ``ids`` and ``positions`` ``[T]``; ``firsts[i]`` is the row that step i begins at, and the last
    entry T. ``sampled`` and ``rows``: as :class:`engine.attention.interface.Batch` has them.
    """

    steps: tuple[Step, ...]
    singles: int
    ids: Ints
    positions: Ints
    firsts: tuple[int, ...]
    sampled: tuple[str, ...]
    rows: tuple[int, ...]


def pack(plan: Plan, tokens: Mapping[str, Sequence[int]]) -> Packed:
    """Pack ``plan``. Raises ``ValueError`` when it is empty or runs a token not known yet."""
    if not plan.steps:
        raise ValueError("plan.steps must not be empty")
    singles = [step for step in plan.steps if step.decodes and step.tokens == 1]
    rest = [step for step in plan.steps if not (step.decodes and step.tokens == 1)]
    ids: list[int] = []
    positions: list[int] = []
    firsts = [0]
    sampled: list[str] = []
    rows: list[int] = []
    for step in (*singles, *rest):
        end = step.start + step.tokens
        known = tokens[step.request_id]
        if end > len(known):
            raise ValueError(
                f"plan runs position {end - 1} of request {step.request_id!r}, "
                f"which has {len(known)} tokens"
            )
        ids.extend(known[step.start : end])
        positions.extend(range(step.start, end))
        firsts.append(len(ids))
        if step.samples:
            samples = 1 + step.drafts
            sampled.extend([step.request_id] * samples)
            rows.extend(range(len(ids) - samples, len(ids)))
    return Packed(
        (*singles, *rest), len(singles), np.asarray(ids, dtype=np.int64),
        np.asarray(positions, dtype=np.int64), tuple(firsts), tuple(sampled), tuple(rows),
    )  # fmt: skip
