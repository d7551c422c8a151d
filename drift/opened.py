"""Requests that have not ended: lower bounds, known by arrival.

Completions alone are length-biased: what is long ends last, and a window of completions holds fewer
long ones than arrived. An engine that says which requests are under way, with their tokens so far,
lets them enter at their place of arrival as what they are: not shorter than that.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from dataclasses import dataclass

from ranker.types import FinishReason, Forecast, Outcome


@dataclass(frozen=True, slots=True)
class Open:
    """A request with ``output_tokens`` so far, ``seen`` then. Times are Unix seconds.

    Raises ``ValueError`` as :class:`ranker.types.Outcome` does.
    """

    request_id: str
    served_model: str
    output_tokens: int
    arrival: float
    seen: float
    prompt_tokens: int = 0
    forecast: Forecast | None = None
    tenant: str = ""
    lane: str = ""

    def __post_init__(self) -> None:
        self.bound()

    def bound(self) -> Outcome:
        """What is known of its length, as if it had been cut off when it was seen."""
        return Outcome(
            self.request_id,
            self.served_model,
            self.output_tokens,
            FinishReason.ABORT,
            self.arrival,
            self.seen,
            self.prompt_tokens,
            self.forecast,
            self.tenant,
            self.lane,
        )


class OpenRequests:
    """Those of one served model. At most ``most`` are known; more are passed over.

    A request is open until its outcome comes or until it is :meth:`passed`; either way reports that
    still call it open are stale and change nothing. The last ``most`` such ids are remembered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, Open] = {}
        self._by_arrival: list[tuple[float, str]] = []
        self._ended: OrderedDict[str, bool] = OrderedDict()  # by id: whether it was passed

    def __len__(self) -> int:
        return len(self._open)

    def note(self, request: Open) -> None:
        """It is under way."""
        known = self._open.get(request.request_id)
        if known is None:
            if request.request_id in self._ended or len(self._open) >= self._most:
                return
            heapq.heappush(self._by_arrival, (request.arrival, request.request_id))
        elif request.output_tokens < known.output_tokens or request.arrival != known.arrival:
            return  # an older report, or another story: the first counts
        self._open[request.request_id] = request

    def bounded(self, request_id: str) -> bool:
        """Whether it was passed and has not ended since."""
        return self._ended.get(request_id, False)

    def end(self, request_id: str) -> bool:
        """Its outcome is here. Whether it had entered as a lower bound before."""
        self._open.pop(request_id, None)
        passed = self._ended.get(request_id, False)
        self._remember(request_id, False)
        return passed

    def passed(self, arrival: float) -> list[Open]:
        """Those that arrived before ``arrival``, oldest first; they are not open any more."""
        found = []
        while self._by_arrival and self._by_arrival[0][0] < arrival:
            _, request_id = heapq.heappop(self._by_arrival)
            request = self._open.pop(request_id, None)
            if request is not None:
                self._remember(request_id, True)
                found.append(request)
        return found

    def _remember(self, request_id: str, passed: bool) -> None:
        self._ended[request_id] = passed
        self._ended.move_to_end(request_id)
        if len(self._ended) > self._most:
            self._ended.popitem(last=False)
