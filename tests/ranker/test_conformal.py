from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtri

from ranker import conformal
from ranker.calibration import Calibration, CalibrationConfig, pinball
from ranker.calibrators import KINDS, Averaged, fit_calibrator
from ranker.conformal import Conformal
from ranker.metrics import coverage
from ranker.prediction import Prediction
from ranker.types import LEVELS
from ranker.validation import fold_numbers, simplest

CONFIG = CalibrationConfig(knots=9, bandwidths=(0.15, 0.4, math.inf))


def draw(n: int, knows: float, seed: int, *, off: float = 0.0, says: float | None = None):
    """A model with a distribution head, and lengths whose log has standard deviation 1.

    It explains the share ``knows`` of their variance, believes that it is ``says``, and is ``off``
    by that many log tokens.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    log = 5 + math.sqrt(knows) * z + math.sqrt(1 - knows) * rng.normal(size=n)
    believed = knows if says is None else says
    head = 5 + off + math.sqrt(believed) * z[:, None] + math.sqrt(1 - believed) * ndtri(LEVELS)
    return Prediction(z, np.exp(head)), np.exp(log)


def free(n: int) -> np.ndarray:
    return np.zeros(n, bool)


def moved(prediction: Prediction, tokens: np.ndarray) -> Conformal:
    n = len(tokens)
    return conformal.fit(prediction, tokens, free(n), np.arange(n), CONFIG)


@pytest.mark.parametrize("off", [-1.0, 0.0, 0.7])
def test_exchangeable_rows_are_covered_within_binomial_error(off: float):
    fitted = moved(*draw(1500, 0.5, 0, off=off))
    prediction, tokens = draw(6000, 0.5, 1, off=off)
    shares, _ = coverage(fitted.quantiles(prediction), tokens, free(6000), LEVELS)
    p = np.array(LEVELS)
    # Of the rows calibrated on and of those judged; four standard errors of both together.
    error = np.sqrt(p * (1 - p) * (1 / 1500 + 1 / 6000))
    assert np.all(np.abs(shares - p) < 4 * error)
    assert fitted.share == 1.0


def test_without_shrinking_offsets_are_the_conformity_scores_quantiles():
    prediction, tokens = draw(499, 0.5, 2, off=0.3)
    fitted = moved(prediction, tokens)
    scores = np.log1p(tokens)[:, None] - np.log1p(prediction.quantiles)
    ordered = np.sort(scores, axis=0)
    for k, p in enumerate(LEVELS):
        assert fitted.offsets[k] == pytest.approx(ordered[math.ceil(p * 500) - 1, k])


@pytest.mark.parametrize("seed", range(3))
def test_a_head_that_knows_nothing_but_says_much_gives_everybody_the_marginal(seed: int):
    rng = np.random.default_rng(seed + 100)
    prediction, _ = draw(600, 0.5, seed)
    tokens = np.exp(5 + rng.normal(size=600))
    fitted = moved(prediction, tokens)
    table = fitted.quantiles(prediction)
    assert fitted.share == 0.0
    assert np.all(table == table[0])
    marginal = np.quantile(tokens, LEVELS, method="inverted_cdf")
    assert np.log(table[0][:-1] / marginal[:-1]) == pytest.approx(0, abs=0.05)


def test_a_head_that_says_too_much_is_made_as_flat_as_the_truth():
    fitted = moved(*draw(3000, 0.1, 3, says=0.9))
    prediction, tokens = draw(4000, 0.1, 4, says=0.9)
    median = np.log1p(fitted.quantiles(prediction)[:, LEVELS.index(0.5)])
    slope = np.polyfit(median, np.log1p(tokens), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.2)  # what it says of a row comes true
    raw = np.log1p(prediction.quantiles[:, LEVELS.index(0.5)])
    assert np.polyfit(raw, np.log1p(tokens), 1)[0] == pytest.approx(1 / 3, abs=0.06)


def test_censored_rows_are_bounds():
    prediction, tokens = draw(4000, 0.4, 5)
    cut = tokens > 300
    fitted = conformal.fit(prediction, np.minimum(tokens, 300), cut, np.arange(4000), CONFIG)
    assert 0.15 < cut.mean() < 0.35
    shares, _ = coverage(fitted.quantiles(prediction), tokens, free(4000), LEVELS)
    assert shares[:7] == pytest.approx(LEVELS[:7], abs=0.03)


COUNTS = st.integers(0, 5000)


@settings(max_examples=10, deadline=None)
@given(st.integers(20, 60).flatmap(lambda n: st.tuples(
    arrays(np.int64, n, elements=COUNTS),
    arrays(np.int64, (n, len(LEVELS)), elements=COUNTS),
    arrays(np.bool_, n),
)))  # fmt: skip
def test_any_head_and_data_give_finite_quantiles_that_ascend(rows):
    tokens, head, censored = rows
    prediction = Prediction(tokens[::-1].astype(float), head.astype(float))
    config = CalibrationConfig(knots=4, bandwidths=(0.3, math.inf), folds=2)
    table = fit_calibrator(prediction, tokens, censored, config).quantiles(prediction)
    assert table.shape == head.shape
    assert np.all(np.isfinite(table))
    assert np.all(table >= 0)
    assert np.all(np.diff(table, axis=1) >= 0)


def crossing(n: int, seed: int):
    """Scores that order nothing, and a head that knows how spread out each answer is."""
    rng = np.random.default_rng(seed)
    spread = rng.choice([0.1, 1.5], n)
    log = 5 + spread * rng.normal(size=n)
    head = 5 + spread[:, None] * ndtri(LEVELS)
    return Prediction(rng.normal(size=n), np.exp(head)), np.exp(log)


def test_the_better_way_is_taken_and_ties_go_to_the_score_table():
    assert isinstance(fit_calibrator(*crossing(400, 0), free(400), CONFIG), Conformal)
    prediction, tokens = draw(400, 0.5, 0)
    assert isinstance(fit_calibrator(Prediction(prediction.scores), tokens, free(400)), Calibration)
    # A head that knows what the score does, from as many rows of its own; one that is noise.
    other, others = draw(400, 0.5, 8)
    learnt = fit_calibrator(Prediction(other.scores), others, free(400), CONFIG)
    for head in (learnt.quantiles(prediction), draw(400, 0.5, 9)[0].quantiles):
        both = Prediction(prediction.scores, head)
        assert isinstance(fit_calibrator(both, tokens, free(400), CONFIG), Calibration)


def test_an_ignorant_model_ends_at_the_marginal_whatever_it_offers():
    prediction, _ = draw(500, 0.5, 1)
    tokens = np.exp(5 + np.random.default_rng(2).normal(size=500))
    table = fit_calibrator(prediction, tokens, free(500), CONFIG).quantiles(prediction)
    assert np.all(np.log(table[:, 2:9].max(axis=0) / table[:, 2:9].min(axis=0)) < 0.5)


def test_draws_of_one_prompt_do_not_judge_each_other():
    prompt = np.repeat(np.arange(40), 5)
    fold = fold_numbers(np.repeat(np.random.default_rng(0).normal(size=40), 5), prompt, 4)
    assert all(len(set(fold[prompt == p])) == 1 for p in range(40))
    assert np.bincount(fold).tolist() == [50] * 4


def test_draws_of_one_prompt_are_one_piece_of_evidence():
    # The second candidate is better by one standard error of 100 rows, not of 20 prompts.
    rng = np.random.default_rng(0)
    gain = np.repeat(rng.normal(size=20), 5)
    gain += 1.5 * np.std(gain) / 10 - gain.mean()
    losses = np.stack((gain, np.zeros(100)))
    assert simplest(losses, np.arange(100)) == 1
    assert simplest(losses, np.repeat(np.arange(20), 5)) == 0


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_was_fitted_survives_being_written_down(kind: str):
    prediction, tokens = draw(200, 0.4, 6)
    rows = (prediction, tokens, free(200))
    table = fit_calibrator(Prediction(prediction.scores), *rows[1:], CONFIG)
    fitted = {c.kind: c for c in (table, moved(*rows[:2]), Averaged(table, moved(*rows[:2])))}[kind]
    again = KINDS[kind].restore(fitted.arrays(), fitted.numbers())
    assert np.array_equal(again.quantiles(prediction), fitted.quantiles(prediction))
    assert again.levels == fitted.levels == LEVELS


def test_averaging_is_in_log_tokens():
    prediction, tokens = draw(200, 0.4, 7)
    table = fit_calibrator(Prediction(prediction.scores), tokens, free(200), CONFIG)
    head = moved(prediction, tokens)
    both = Averaged(table, head).quantiles(prediction)
    middle = np.sqrt((1 + table.quantiles(prediction)) * (1 + head.quantiles(prediction))) - 1
    assert both == pytest.approx(middle)
    assert pinball(both, tokens, free(200), LEVELS).shape == (200,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: moved(Prediction(np.zeros(30)), np.ones(30)), "no quantiles"),
        (lambda: moved(Prediction(np.zeros(30), np.ones((30, 2))), np.ones(30)), "2 quantiles"),
        (
            lambda: fit_calibrator(
                Prediction(np.zeros(30), np.full((30, 12), math.nan)), np.ones(30), free(30)
            ),
            "quantiles must be finite",
        ),
        (
            lambda: fit_calibrator(
                Prediction(np.zeros(30)), np.ones(30), free(30), groups=np.zeros(30)
            ),
            "one prompt alone",
        ),
        (
            lambda: fit_calibrator(Prediction(np.zeros(30)), np.ones(30), free(30), groups=[1]),
            "groups",
        ),
        (lambda: Conformal(np.array([2.0, 1.0]), np.zeros(2), 1.0, (0.1, 0.5)), "descend"),
        (lambda: Conformal(np.array([1.0]), np.array([math.nan]), 1.0, (0.5,)), "finite"),
        (lambda: Conformal(np.array([1.0]), np.zeros(2), 1.0, (0.5,)), "one value a level"),
        (lambda: Conformal(np.array([1.0]), np.zeros(1), 1.5, (0.5,)), "conformal.share"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
