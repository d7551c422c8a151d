"""Trust that fell: it holds for those that still wait, too, who came when it was higher."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from engine.core.request import Request
from ranker.types import Forecast

#: Lane, tenant, ranker, version.
_Where = tuple[str, str, str, str]


@dataclass(slots=True)
class _Slice:
    """newest: trust of its last arrival, 1 before the first. due: those that were held when trust
    fell to ``limit`` and were not looked at since. others: the rest of those held."""

    newest: float = 1.0
    limit: float = 1.0
    due: OrderedDict[str, Request] = field(default_factory=OrderedDict)
    others: OrderedDict[str, Request] = field(default_factory=OrderedDict)

    def fell(self, trust: float) -> None:
        """All are due. Amortised O(1): who is moved came, or was looked at, since the last fall."""
        if self.due:
            self.limit = min(self.limit, trust)
            self.due.update(self.others)
        else:
            self.limit, self.due = trust, self.others
        self.others = OrderedDict()


class Distrust:
    """The trust of the newest forecast of each tenant and lane, by ranker version, for who is held.

    A tail is made by those who wait: when forecasts turn out to order wrongly, the queue holds
    exactly the requests that they kept back. Ordered as before, all who come later without a
    forecast's blessing would go ahead of them. A queue may be long, so they are due a few at a
    time. Memory is bounded by who is held.
    """

    def __init__(self) -> None:
        self._slices: dict[_Where, _Slice] = {}
        self._where: dict[str, _Where] = {}
        self._falls: OrderedDict[_Where, _Slice] = OrderedDict()  # those with somebody due

    @property
    def pending(self) -> bool:
        """Whether somebody is due."""
        return bool(self._falls)

    def arrived(self, request: Request) -> None:
        """One is held from now on; those before it are due if it is trusted less."""
        forecast = request.forecast
        if forecast is None:
            return
        where = _where(request, forecast)
        found = self._slices.get(where)
        if found is not None and forecast.trust < found.newest:
            found.fell(forecast.trust)
            self._falls[where] = found
        self.changed(request)
        self._slices[where].newest = forecast.trust

    def changed(self, request: Request) -> None:
        """It has another forecast or lane, which stands as it is; or it is new here."""
        self.left(request)
        if request.forecast is not None:
            where = self._where[request.id] = _where(request, request.forecast)
            self._slices.setdefault(where, _Slice()).others[request.id] = request

    def left(self, request: Request) -> None:
        """It is held no more."""
        where = self._where.pop(request.id, None)
        if where is None:
            return
        found = self._slices[where]
        found.due.pop(request.id, None)
        found.others.pop(request.id, None)
        if not found.due:
            self._falls.pop(where, None)
            if not found.others:
                del self._slices[where]

    def told(self, request: Request) -> Forecast | None:
        """What the forecast of a held request is from now on, if it is due and trusted less."""
        where = self._where.get(request.id)
        if where is None or self._slices[where].due.pop(request.id, None) is None:
            return None
        found = self._slices[where]
        found.others[request.id] = request
        if not found.due:
            del self._falls[where]
        forecast = request.forecast
        if forecast is None or forecast.trust <= found.limit:
            return None
        return replace(forecast, trust=found.limit)

    def take(self, most: int) -> Iterator[tuple[Request, Forecast]]:
        """Of at most ``most`` that are due, those to be trusted less and the forecast that each has
        from now on: slice by slice, in the order in which they came."""
        for _ in range(most):
            if not self._falls:
                return
            found = next(iter(self._falls.values()))
            request = next(iter(found.due.values()))
            forecast = self.told(request)
            if forecast is not None:
                yield request, forecast

    def check_integrity(self, held: Mapping[str, Request]) -> None:
        """Raise ``RuntimeError`` unless the index says of ``held``, by id, what is true."""
        listed: dict[str, Request] = {}
        for where, found in self._slices.items():
            both = {**found.due, **found.others}
            if not both or bool(found.due) != (where in self._falls):
                raise RuntimeError("a slice of nobody is kept, or its fall is forgotten")
            for request_id, request in both.items():
                forecast = request.forecast
                if forecast is None or _where(request, forecast) != where:
                    raise RuntimeError(f"request {request_id!r} is listed in another's slice")
            listed.update(both)
        if listed != {name: each for name, each in held.items() if each.forecast is not None}:
            raise RuntimeError("who has a forecast is not who is listed by slice")
        if listed.keys() != self._where.keys() or not self._falls.keys() <= self._slices.keys():
            raise RuntimeError("the index of slices contradicts itself")


def _where(request: Request, forecast: Forecast) -> _Where:
    return request.lane, request.tenant, forecast.ranker, forecast.version
