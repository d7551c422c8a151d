from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from ranker.types import LEVELS, FinishReason, Forecast
from training.gate.config import BurstConfig
from training.honesty import HonestyConfig, honesty
from training.sources import Example

QUICK = HonestyConfig(bursts=BurstConfig(bursts=3, requests=120, utilisation=1.0))


def world(prompts: int, knows: float, says: float, draws: int = 2, seed: int = 0):
    """Draws of prompts of which the share ``knows`` of the variance of log lengths is the prompt's,
    and the forecast of a ranker that sees just that and believes that it is ``says``."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=prompts)
    examples, forecasts = [], []
    for p in range(prompts):
        log = 4.5 + math.sqrt(says) * z[p] + math.sqrt(1 - says) * ndtri(LEVELS)
        forecast = Forecast(float(z[p]), tuple(np.exp(log).tolist()), "r", "1")
        for d in range(draws):
            noise = rng.normal() * math.sqrt(1 - knows)
            tokens = max(1, round(math.exp(4.5 + math.sqrt(knows) * z[p] + noise)))
            one = Example(str(p), tokens, FinishReason.STOP, "m", f"{p}/{d}", "test", 20)
            examples.append(one)
            forecasts.append(forecast)
    return forecasts, examples


def test_who_says_what_it_knows_is_honest():
    for knows in (0.05, 0.6):
        found = honesty(*world(600, knows, knows), QUICK)
        assert found.calibrated
        assert found.flat
        assert found.harmless
        assert found.forecast == pytest.approx(found.realised, abs=0.4)
        assert found.forecast == pytest.approx(found.allowed, abs=0.4)


def test_who_says_more_than_two_draws_allow_is_not_flat():
    found = honesty(*world(600, 0.05, 0.7), QUICK)
    assert not found.flat
    assert found.forecast > found.allowed + 1
    assert "not as flat as the truth" in str(found)


def test_who_is_off_is_not_calibrated():
    forecasts, examples = world(400, 0.3, 0.3)
    off = [replace(f, quantiles=tuple(2 * q for q in f.quantiles)) for f in forecasts]
    found = honesty(off, examples, QUICK)
    assert not found.calibrated
    assert found.p50 > 0.6
    assert "not calibrated" in str(found)


def test_who_has_the_order_backwards_does_harm():
    forecasts, examples = world(400, 0.8, 0.8)
    by_score = np.argsort([f.score for f in forecasts], kind="stable")
    backwards = list(forecasts)
    for low, high in zip(by_score, by_score[::-1], strict=True):
        backwards[low] = forecasts[high]
    found = honesty(backwards, examples, QUICK)
    assert found.mean > 1.05
    assert not found.harmless


def test_one_draw_allows_nothing_to_be_said_of_two():
    found = honesty(*world(200, 0.3, 0.3, draws=1), QUICK)
    assert math.isnan(found.allowed)
    assert "test.honesty.allowed" not in found.metrics("test")
    assert found.metrics("test")["test.honesty.flat"] == float(found.flat)
    assert "two draws" not in str(found)


def test_the_same_seed_gives_the_same_bursts():
    rows = world(100, 0.3, 0.3)
    assert honesty(*rows, QUICK, seed=3) == honesty(*rows, QUICK, seed=3)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="at least 50"):
        honesty(*world(10, 0.3, 0.3), QUICK)
