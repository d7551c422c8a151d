"""What forecasts know decides how much of the order of arrival is kept."""

from __future__ import annotations

import pytest

from ranker.types import LEVELS, Forecast
from serving.demo.kept import order_kept


def forecast(tokens: float) -> Forecast:
    return Forecast(tokens, tuple(tokens * (0.5 + level) for level in LEVELS), "r", "1")


def test_forecasts_that_are_all_alike_are_fcfs():
    alike = [forecast(200.0)] * 300
    assert order_kept(alike, [50] * 300) == pytest.approx(1.0)


def test_the_wider_the_forecasts_the_less_of_the_order_stays():
    def kept(spread: float) -> float:
        return order_kept([forecast(100.0 * spread ** (i % 5)) for i in range(300)], [50] * 300)

    assert 0.0 < kept(3.0) < kept(1.05) < 1.0


def test_nothing_has_no_order():
    with pytest.raises(ValueError, match="forecasts"):
        order_kept([], [])
