"""What a forecast and a prompt say about a request, in one number."""

from __future__ import annotations

from typing import NamedTuple

from engine.core.costs import CostModel
from engine.core.request import Request
from ranker.types import Forecast


class Known(NamedTuple):
    """What is known of a request when it arrives.

    length: harmonic mean of the forecast in output tokens, 1/E[1/L]. work: expected, in seconds of
    the engine, prompt included. label: ``work · length^brevity``, which orders requests.

    Latency over output tokens, averaged over requests, weighs each by 1/L, and on one server a
    weighted mean latency is least in the order of work over weight (Smith 1956): brevity 1. With 0
    the order is that of work, for the mean latency itself.
    """

    forecast: Forecast
    prompt_tokens: int
    length: float
    work: float
    label: float

    @property
    def ranker(self) -> tuple[str, str]:
        """Name and version of who forecast; forecasts of different ones do not compare."""
        return (self.forecast.ranker, self.forecast.version)


def known(
    forecast: Forecast, prompt_tokens: int, cost: CostModel, batch: int, brevity: float
) -> Known:
    """``batch``: requests that share a step."""
    tokens = weight = 0.0
    for mass, quantile in forecast.cells():
        tokens += mass * quantile
        weight += mass / quantile if quantile > 1.0 else mass
    length = 1.0 / weight
    work = cost.work(prompt_tokens, tokens, batch)
    return Known(forecast, prompt_tokens, length, work, work * length**brevity)


def weighed(request: Request) -> Forecast | None:
    """The forecast, for an order that goes by it as far as it is trusted; of trust 0 it is none."""
    forecast = request.forecast
    return forecast if forecast is not None and forecast.trust > 0.0 else None
