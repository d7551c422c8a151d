"""Trust that fell: it holds for those that still wait, too, who came when it was higher."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

from engine.core.request import Request
from ranker.types import Forecast

#: Lane, tenant, ranker, version.
_Slice = tuple[str, str, str, str]


class Distrust:
    """The trust of the newest forecast of each tenant and lane, by ranker version.

    A tail is made by those who wait: when forecasts turn out to order wrongly, the queue holds
    exactly the requests that they kept back. Ordered as before, all who come later without a
    forecast's blessing would go ahead of them. The ``most`` slices used last are remembered.
    """

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._newest: OrderedDict[_Slice, float] = OrderedDict()

    def arrived(self, request: Request, held: Iterable[Request]) -> list[tuple[Request, Forecast]]:
        """Who of ``held`` is to be trusted less now that ``request`` came, and the forecast that
        each has from now on. Linear in ``held`` when trust fell, else O(1)."""
        forecast = request.forecast
        if forecast is None:
            return []
        where = _slice(request, forecast)
        before = self._newest.pop(where, 1.0)
        self._newest[where] = forecast.trust
        if len(self._newest) > self._most:
            self._newest.popitem(last=False)
        if forecast.trust >= before:
            return []
        return [
            (other, replace(other.forecast, trust=forecast.trust))
            for other in held
            if other.forecast is not None
            and other.forecast.trust > forecast.trust
            and _slice(other, other.forecast) == where
        ]


def _slice(request: Request, forecast: Forecast) -> _Slice:
    return request.lane, request.tenant, forecast.ranker, forecast.version
