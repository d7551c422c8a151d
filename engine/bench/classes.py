"""Forecasts as a classifier gives them: the bucket that an answer's length falls in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from engine.core.request import Request


def in_classes(requests: Sequence[Request], width: int, classes: int = 10) -> list[Request]:
    """The same requests, each known by the bucket of ``width`` tokens that its median forecast
    falls in; the last bucket is open. That is how S3 predicts (Jin et al. 2023), and what Fu et al.
    2024 compare with: such forecasts can be right for most requests and say nothing of their order.
    """
    found = []
    for request in requests:
        assert request.forecast is not None
        bucket = bucket_of(request.forecast.median, width, classes)
        forecast = replace(request.forecast, score=float(bucket))
        found.append(replace(request, forecast=forecast))
    return found


def bucket_of(tokens: float, width: int, classes: int = 10) -> int:
    """The bucket that a length falls in."""
    return min(classes - 1, math.floor(tokens / width))
