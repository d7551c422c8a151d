from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from ranker.blend import BlendModel
from ranker.prediction import Prediction
from training.blend import fit_blend
from training.sources import Lengths


def rows(n=400, seed=0):
    """Log lengths that are the sum of two things, each seen by one model, and a third that sees
    nothing."""
    rng = np.random.default_rng(seed)
    a, b, noise = rng.normal(size=(3, n))
    tokens = np.ceil(np.exp(4 + 0.8 * a + 0.4 * b + 0.3 * rng.normal(size=n)))
    parts = [Prediction(0.1 * a + 7), Prediction(50 * b), Prediction(noise)]
    return parts, Lengths(tokens, np.zeros(n, bool))


def test_weights_follow_what_each_part_knows():
    parts, lengths = rows()
    fit = fit_blend(parts, lengths)
    assert sum(fit.weights) == pytest.approx(1)
    assert fit.weights[0] / fit.weights[1] == pytest.approx(2, rel=0.2)
    assert fit.weights[2] < 0.06
    assert fit.tau > max(fit.part_taus) + 0.05
    assert fit.part_taus[0] == pytest.approx(kendalltau(parts[0].scores, lengths.tokens).statistic)
    assert fit == fit_blend(parts, lengths)


def test_a_part_that_is_wrong_has_no_weight_and_is_not_asked():
    parts, lengths = rows()
    wrong = Prediction(-parts[0].scores)
    fit = fit_blend([parts[0], wrong], lengths)
    assert fit.weights == (1.0, 0.0)
    first, second = object(), object()
    assert fit.model([first, second]) is first
    assert fit.said([first, second], [parts[0], wrong]) is parts[0]


def test_the_model_has_the_tau_that_the_fit_says():
    parts, lengths = rows()
    fit = fit_blend(parts[:2], lengths)
    blend = fit.model([None, None])
    assert isinstance(blend, BlendModel)
    scores = blend.combine(parts[:2]).scores
    assert np.array_equal(fit.said([None, None], parts[:2]).scores, scores)
    assert kendalltau(scores, lengths.tokens).statistic == pytest.approx(fit.tau)


def test_bounds_decide_only_what_they_can():
    parts, lengths = rows()
    limit = np.quantile(lengths.tokens, 0.6)
    cut = Lengths(np.minimum(lengths.tokens, limit), lengths.tokens > limit)
    fit, whole = fit_blend(parts[:2], cut), fit_blend(parts[:2], lengths)
    assert fit.weights == pytest.approx(whole.weights, abs=0.1)


def test_parts_that_say_nothing_are_heard_alike():
    _, lengths = rows(60)
    flat = Prediction(np.full(60, 3.0))
    assert fit_blend([flat, flat], lengths).weights == (0.5, 0.5)


@pytest.mark.parametrize(
    ("parts", "tokens", "censored", "message"),
    [
        ([], [1, 2], [0, 0], "2 scores"),
        ([[0.0]], [1, 2], [0, 0], "2 scores"),
        ([[0.0, np.nan]], [1, 2], [0, 0], "finite"),
        ([[0.0, 1.0]], [5, 5], [0, 0], "known order"),
        ([[0.0, 1.0]], [1, 2], [1, 1], "known order"),
    ],
)
def test_what_cannot_be_fitted_is_refused(parts, tokens, censored, message):
    lengths = Lengths(np.array(tokens, float), np.array(censored, bool))
    with pytest.raises(ValueError, match=message):
        fit_blend([Prediction(np.array(part)) for part in parts], lengths)
