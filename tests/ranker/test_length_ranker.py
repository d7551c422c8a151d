from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from ranker.calibration import Calibration
from ranker.length_ranker import POOLED, LengthRanker
from ranker.prediction import Prediction
from ranker.scale import Scale
from ranker.sketch import sketches


class Words:
    """Scores a prompt by its words; the model ``wordy`` is one ahead."""

    kind: ClassVar[str] = "words"

    def predict(self, prompts: Sequence[str], served_model: str = "") -> Prediction:
        ahead = served_model == "wordy"
        return Prediction(np.array([float(len(p.split()) + ahead) for p in prompts]))


class Understood(Words):
    """Letters are all it understands of a prompt."""

    def predict(self, prompts: Sequence[str], served_model: str = "") -> Prediction:
        counts = np.array([[float(p.count(c)) for c in "abcdef"] for p in prompts])
        return Prediction(super().predict(prompts).scores, embeddings=counts)


class Odd:
    """A prompt is as strange as its share of question marks."""

    def of(self, prompts: Sequence[str], prediction: Prediction) -> np.ndarray:
        assert len(prediction.scores) == len(prompts)
        return np.array([p.count("?") / len(p) for p in prompts])


def table(tokens: float) -> Calibration:
    """The median is ``tokens`` times the score."""
    knots = np.array([0.0, 100.0])
    return Calibration(knots, knots[:, None] * tokens, (0.5,), 1.0)


@pytest.fixture
def pooled() -> LengthRanker:
    return LengthRanker(
        Words(),
        table(10),
        POOLED,
        calibrations={"terse": table(1), "wordy": table(100)},
        scales={"": Scale(2.0), "terse": Scale(0.5, 0.1), "wordy": Scale(4.0)},
    )


def test_one_model_has_the_scores_that_its_model_gives():
    ranker = LengthRanker(Words(), table(10), "m", "n", "3")
    (forecast,) = ranker.forecast(["a b c"])
    assert (forecast.score, forecast.median) == (3.0, 30.0)
    assert (forecast.ranker, forecast.version, forecast.novelty) == ("n", "3", 0.0)
    assert ranker.knows("m")
    assert not ranker.knows("other")
    assert ranker.serving("other") is ranker


def test_each_model_gets_its_own_numbers_and_a_stranger_the_pooled_ones(pooled):
    medians = {m: pooled.forecast(["a b"], m)[0].median for m in ("terse", "wordy", "new", "")}
    assert medians == {"terse": 2.0, "wordy": 300.0, "new": 20.0, "": 20.0}
    assert [pooled.knows(m) for m in ("terse", "wordy", "new", POOLED)] == [
        True,
        True,
        False,
        False,
    ]
    assert pooled.serving("new") is pooled
    for served in ("terse", "wordy"):
        assert pooled.serving(served).forecast(["a b"]) == pooled.forecast(["a b"], served)
        assert not pooled.serving(served).knows("new")


def test_scores_compare_across_models_and_keep_their_order_within_one(pooled):
    prompts = ["a", "a b", "a b c d"]
    scores = {m: [f.score for f in pooled.forecast(prompts, m)] for m in ("terse", "wordy", "")}
    assert all(s == sorted(s) for s in scores.values())
    assert max(scores["terse"]) < min(scores[""]) < min(scores["wordy"])


def test_novelty_is_the_ranker_s_word_on_the_prompt():
    ranker = LengthRanker(Words(), table(10), "m", novelty=Odd())
    usual, strange = ranker.forecast(["a b", "????"])
    assert (usual.novelty, strange.novelty) == (0.0, 1.0)
    assert strange.novel
    assert ranker.at_version("x", "2").forecast(["????"])[0].novel


def test_forecasts_carry_a_sketch_of_the_embedding_if_there_is_one():
    without, ranker = (LengthRanker(model, table(10), "m") for model in (Words(), Understood()))
    prompts = ["a cab", "faded", "a cab"]
    found = [f.sketch for f in ranker.forecast(prompts)]
    assert found == sketches(ranker.model.predict(prompts).embeddings)
    assert found[0] == found[2] != found[1]
    assert [f.sketch for f in without.forecast(prompts)] == [()] * 3
    assert [replace(f, sketch=()) for f in ranker.forecast(prompts)] == without.forecast(prompts)


def test_no_prompts_give_no_forecasts(pooled):
    assert pooled.forecast([]) == []


def test_scales_without_their_calibrations_are_refused():
    with pytest.raises(ValueError, match=r"ranker\.scales"):
        LengthRanker(Words(), table(1), POOLED, scales={"": Scale(), "a": Scale()})
