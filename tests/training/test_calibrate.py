from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from scipy.stats import kendalltau

from ranker.calibration import CalibrationConfig
from ranker.length_ranker import POOLED, LengthRanker
from ranker.metrics import coverage
from ranker.prediction import Prediction
from ranker.types import FinishReason
from training.calibrate import calibrated
from training.sources import Example

CONFIG = CalibrationConfig(knots=9)
#: Median tokens and how far a prompt moves them, in log tokens.
MODELS = {"terse": (30.0, 1.0), "wordy": (500.0, 0.3), "rare": (100.0, 0.5)}


class Digits:
    """The score is a number in the prompt."""

    kind: ClassVar[str] = "digits"

    def predict(self, prompts: Sequence[str], served_model: str = "") -> Prediction:
        return Prediction(np.array([float(p) for p in prompts]))


def answers(model: str, rows: int, seed: int) -> list[Example]:
    rng = np.random.default_rng(seed)
    middle, moves = MODELS[model]
    found = []
    for i in range(rows):
        z = rng.normal()
        tokens = max(1, round(middle * np.exp(moves * z + 0.4 * rng.normal())))
        found.append(Example(repr(z), tokens, FinishReason.STOP, model, str(i), "validation"))
    return found


def ranker_of(held: Sequence[Example], served_model: str) -> LengthRanker:
    model = Digits()
    said = model.predict([e.prompt for e in held], served_model)
    return calibrated(model, held, said, CONFIG, served_model=served_model, name="r")


@pytest.fixture(scope="module")
def ranker():
    held = answers("terse", 400, 0) + answers("wordy", 400, 1) + answers("rare", 20, 2)
    return ranker_of(held, POOLED)


def test_each_served_model_is_covered_by_its_own_quantiles(ranker):
    for model in ("terse", "wordy"):
        test = answers(model, 1500, 7)
        quantiles = [f.quantiles for f in ranker.forecast([e.prompt for e in test], model)]
        tokens = np.array([e.output_tokens for e in test])
        found, _ = coverage(quantiles, tokens, np.zeros(1500, bool), CONFIG.levels)
        assert found == pytest.approx(CONFIG.levels, abs=0.08)


def test_too_few_rows_of_a_model_leave_it_to_the_pooled_ones(ranker):
    assert ranker.knows("wordy")
    assert not ranker.knows("rare")
    assert ranker.forecast(["0.5"], "rare") == ranker.forecast(["0.5"])


def test_scores_follow_expected_length_across_models(ranker):
    rows = answers("terse", 300, 8) + answers("wordy", 300, 9)
    tokens = [e.output_tokens for e in rows]
    scaled = [ranker.forecast([e.prompt], e.model)[0].score for e in rows]
    raw = [float(e.prompt) for e in rows]
    assert kendalltau(scaled, tokens).statistic > kendalltau(raw, tokens).statistic + 0.2
    own, plain = scaled[:300], raw[:300]
    assert kendalltau(own, plain).statistic == pytest.approx(1.0)


def test_one_served_model_needs_no_scale():
    ranker = ranker_of(answers("terse", 60, 3), "terse")
    assert not ranker.scales
    assert ranker.forecast(["1.5"])[0].score == 1.5


def test_draws_of_one_prompt_alone_are_too_little():
    rows = answers("terse", 1, 4) * 40
    with pytest.raises(ValueError, match="one prompt alone"):
        ranker_of(rows, "terse")
