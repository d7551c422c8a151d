from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import kendalltau

from ranker.metrics import ceiling, order, share_of_ceiling


def drawn(prompts: int, draws: int, seed: int, noise: float = 1.0):
    rng = np.random.default_rng(seed)
    level = rng.normal(size=prompts)
    return level, level[:, None] + noise * rng.normal(size=(prompts, draws))


def test_two_draws_are_scipys_tau_with_a_bootstrap_of_prompts():
    _, y = drawn(150, 2, 0)
    found = ceiling(y, resamples=1000)
    assert found.tau == pytest.approx(kendalltau(y[:, 0], y[:, 1]).statistic)
    plain = order(y[:, 0], y[:, 1], resamples=1000)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high))
    assert found.prompts == 150


def test_more_draws_are_the_mean_over_their_pairs():
    _, y = drawn(60, 3, 1)
    pairs = [kendalltau(y[:, a], y[:, b]).statistic for a, b in ((0, 1), (0, 2), (1, 2))]
    assert ceiling(y, resamples=0).tau == pytest.approx(np.mean(pairs))


def test_prompts_without_a_second_draw_do_not_count():
    _, y = drawn(80, 2, 2)
    y[50:, 1] = math.nan
    found = ceiling(y, resamples=0)
    assert found.prompts == 50
    assert found.tau == pytest.approx(kendalltau(y[:50, 0], y[:50, 1]).statistic)


def test_missing_draws_weigh_by_the_prompts_that_have_them():
    _, y = drawn(80, 3, 3)
    y[30:, 2] = math.nan
    taus = [
        kendalltau(y[:80, 0], y[:80, 1]).statistic,
        kendalltau(y[:30, 0], y[:30, 2]).statistic,
        kendalltau(y[:30, 1], y[:30, 2]).statistic,
    ]
    assert ceiling(y, resamples=0).tau == pytest.approx(np.average(taus, weights=(80, 30, 30)))


def sign(a: float, b: float, cut_a: bool, cut_b: bool) -> int | None:
    """Who is the longer of two lengths, of which either may be a bound; None when nobody knows."""
    if cut_a and cut_b:
        return None
    if cut_a:
        return 1 if a >= b else None
    if cut_b:
        return -1 if b >= a else None
    return int(np.sign(a - b))


def test_cut_draws_are_bounds_or_ties_as_asked():
    _, y = drawn(60, 2, 4)
    limit = np.quantile(y, 0.7)
    cut, over = np.minimum(y, limit), y > limit
    ties = ceiling(cut, over, bounds=False, resamples=0)
    assert ties.tau == pytest.approx(kendalltau(cut[:, 0], cut[:, 1]).statistic)
    assert not ties.bounds
    sums = np.zeros(3)
    for i, j in product(range(60), repeat=2):
        one, two = (sign(cut[i, d], cut[j, d], over[i, d], over[j, d]) for d in (0, 1))
        if one is not None and two is not None:
            sums += (one * two, abs(one), abs(two))
    known = ceiling(cut, over, resamples=0)
    assert known.tau == pytest.approx(sums[0] / math.sqrt(sums[1] * sums[2]))
    assert known.bounds


def test_a_ranker_that_knows_the_distribution_passes_the_ceiling_and_noise_has_none_of_it():
    level, y = drawn(300, 2, 5)
    known = share_of_ceiling(level, y)
    assert known.ceiling == ceiling(y, resamples=0).tau
    expected = np.mean([kendalltau(level, y[:, d]).statistic for d in (0, 1)])
    assert known.tau == pytest.approx(expected)
    assert known.share == pytest.approx(known.tau / known.ceiling)
    assert known.low < known.share < known.high
    assert known.low > 1  # each draw is noisy, what it is drawn from is not
    noise = share_of_ceiling(np.random.default_rng(0).normal(size=300), y)
    assert noise.low < 0 < noise.high


def test_of_many_prompts_a_part_is_judged():
    level, y = drawn(900, 2, 6)
    whole, part = share_of_ceiling(level, y), share_of_ceiling(level, y, most_prompts=300)
    assert (whole.prompts, part.prompts) == (900, 300)
    assert part.low < whole.share < part.high


def test_without_a_second_draw_there_is_none():
    found = ceiling(np.array([[1.0, math.nan], [2.0, math.nan]]))
    assert math.isnan(found.tau)
    assert found.prompts == 0
    assert math.isnan(share_of_ceiling([1.0], np.array([[1.0, math.nan]])).share)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ceiling([1.0, 2.0]), "one shape"),
        (lambda: ceiling(np.ones((3, 2)), np.zeros((3, 1), bool)), "one shape"),
        (lambda: ceiling(np.full((3, 2), math.inf)), "finite"),
        (lambda: share_of_ceiling([1.0], np.ones((3, 2))), "one a prompt"),
        (lambda: ceiling(np.ones((3, 2)), confidence=0.0), "confidence"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
