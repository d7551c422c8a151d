"""The Gittins index of what a forecast leaves open."""

from __future__ import annotations

import math

from engine.core import remaining
from engine.core.policies.base import Key, Static
from engine.core.policies.granularity import Granularity
from engine.core.policies.size import Size
from engine.core.request import Request
from ranker.types import Forecast


class Gittins(Static):
    """Highest Gittins index first: optimal for mean latency on one server when sizes are known by
    their distributions only (Gittins 1979; Aalto, Ayesta & Righter 2009, "On the Gittins index in
    the M/G/1 queue").

    After work ``a`` the index is the supremum over quanta ``d`` of
    ``P(S − a <= d | S > a) / E[min(S − a, d) | S > a]``: completions per second of work under the
    best quantum. The key is its inverse. Requests without a forecast go first, in order of arrival.
    """

    name = "gittins"
    preempts = True

    def __init__(self, config: Granularity | None = None, size: Size | None = None) -> None:
        self.config = config or Granularity()
        self._size = size or Size()

    def key(self, request: Request) -> Key:
        if request.trusted is None:
            return (0.0, request.arrival)
        return (self._rank(request, request.trusted), request.arrival)

    def rekey_after(self, request: Request) -> int | None:
        return None if request.trusted is None else self.config.rekey_after(request)

    def _rank(self, request: Request, forecast: Forecast) -> float:
        """Work per completion under the best quantum, above 0.

        Between two knots the density is constant (in work as in tokens: that attention makes late
        tokens dearer counts at the knots alone), so the hazard rises and no quantum inside is
        better than both ends. In the tail it stands still: start or infinity.
        """
        done = self.config.counted(request)
        knots = remaining.knots(forecast, done)
        best = math.inf
        worked, spent, ended = 0.0, 0.0, 0.0  # work to come up to a knot, what of it is expected
        for tokens, probability in knots:
            work = self._size.to_come(request, done, tokens)
            spent += (work - worked) * (1.0 - (ended + probability) / 2.0)
            worked, ended = work, probability
            if ended > 0.0:
                best = min(best, spent / ended)
        to_end = self._size.to_come(request, done, knots[-1][0] + remaining.tail(forecast))
        return min(best, spent + (1.0 - ended) * (to_end - worked))
