"""Order of the ranker's score alone."""

from __future__ import annotations

import math

from engine.core.policies.base import Key, Static
from engine.core.request import Request


class Ranked(Static):
    """Lowest score first, as in "Efficient LLM Scheduling by Learning to Rank" (Fu et al. 2024,
    arXiv 2408.15792) without its starvation rule: the plainest learned order.

    It has no bound on waiting. Requests without a forecast go before those with one, in order of
    arrival: a score cannot place them, and nobody shall starve for a ranker that was away.
    """

    name = "ranked"

    def key(self, request: Request) -> Key:
        if request.trusted is None:
            return (-math.inf, request.arrival)
        return (request.trusted.score, request.arrival)
