"""A sampled token. Standard library only."""

from __future__ import annotations

from typing import NamedTuple


class Token(NamedTuple):
    """``logprob``: natural logarithm of the model's probability, where it was asked for.

    ``top``: the likeliest tokens at this position with theirs, likeliest first.
    """

    id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
