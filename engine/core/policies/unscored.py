"""Where those go of whom no forecast is believed, in an order of labels."""

from __future__ import annotations

import math
from collections import OrderedDict

from engine.core.request import Request, Status


class Unscored:
    """One place for all that wait, so that they go by arrival among themselves.

    The middle label moves, and so does patience: each given at its own time would let a later one
    go ahead of an earlier. So the place stands, and nobody is overdue before those who came
    earlier, until none of them waits. Memory is bounded by who is held; amortised O(1).
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, Request] = OrderedDict()
        self._place = 0.0
        self._deadline = -math.inf  # seconds of the caller's clock

    def place(self, request: Request, middle: float) -> float:
        """The label it counts for; ``middle``: the median one now, 0 while none is known."""
        self.forget(request)
        while self._waiting and next(iter(self._waiting.values())).status is not Status.WAITING:
            self._waiting.popitem(last=False)
        if not self._waiting:
            self._deadline = -math.inf
        if not self._waiting or self._place == 0.0:
            self._place = middle
        self._waiting[request.id] = request
        return self._place

    def patience(self, request: Request, seconds: float) -> float:
        """Seconds of patience of one that begins to wait, when it would have ``seconds`` alone."""
        if request.first_scheduled is not None:
            return seconds  # it waits since later than its arrival
        self._deadline = max(self._deadline, request.arrival + seconds)
        return self._deadline - request.arrival

    def forget(self, request: Request) -> None:
        self._waiting.pop(request.id, None)
