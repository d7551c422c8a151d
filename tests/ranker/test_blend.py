from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranker.blend import BlendModel
from ranker.length_ranker import LengthRanker
from ranker.prediction import Prediction
from ranker.scale import Scale
from ranker.sketch import sketches
from ranker.types import LEVELS


@dataclass(frozen=True)
class Said:
    """A model that says the same of whatever it is asked."""

    kind: ClassVar[str] = "said"
    prediction: Prediction

    def predict(self, prompts, served_model=""):
        return self.prediction


def said(scores, quantiles=None, embeddings=None):
    return Said(Prediction(np.array(scores, float), quantiles, embeddings))


def test_the_score_is_the_weighted_sum_on_one_scale():
    parts = (said([1.0, 2.0]), said([-10.0, 30.0]))
    found = BlendModel(parts, (0.75, 0.25), (Scale(), Scale(0.5, 0.1))).predict(["a", "b"])
    assert found.scores == pytest.approx([0.75 - 0.25 * 0.5, 1.5 + 0.25 * 3.5])
    assert found.quantiles is None
    assert found.embeddings is None


def test_quantiles_are_averaged_in_log_tokens_over_the_parts_that_have_them():
    rng = np.random.default_rng(0)
    a, b = (np.sort(rng.lognormal(4, 1, (3, len(LEVELS))), axis=1) for _ in range(2))
    seen = rng.normal(size=(3, 5))
    parts = (said(np.zeros(3)), said(np.zeros(3), a, seen), said(np.zeros(3), b, seen + 1))
    found = BlendModel(parts, (0.6, 0.3, 0.1), (Scale(),) * 3).predict(["", "", ""])
    assert found.quantiles == pytest.approx(np.exp(np.log1p(a) * 0.75 + np.log1p(b) * 0.25) - 1)
    assert np.all(np.diff(found.quantiles, axis=1) >= 0)
    assert found.embeddings is seen


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2),
    st.floats(1e-3, 1e6),
    st.floats(0.01, 100),
    st.floats(0.01, 100),
    st.sampled_from([0, 1]),
)
def test_it_rises_with_every_part_wherever_the_others_are(scores, more, weight, slope, which):
    low, high = np.array(scores), np.array(scores)
    high[which] += more
    blend = BlendModel((said([0]), said([0])), (weight, 1.0), (Scale(1.0, slope), Scale()))
    below, above = (
        blend.combine([Prediction(row[:1]), Prediction(row[1:])]).scores[0] for row in (low, high)
    )
    assert above > below


@pytest.mark.parametrize(
    ("weights", "scales", "message"),
    [
        ((0.5,), 2, "one weight and one scale per part"),
        ((0.5, 0.0), 2, "positive"),
        ((0.5, float("nan")), 2, "positive"),
        ((1.0, float("inf")), 2, "positive"),
        ((1.0, 1.0), 1, "one weight and one scale per part"),
    ],
)
def test_what_makes_no_blend_is_refused(weights, scales, message):
    with pytest.raises(ValueError, match=message):
        BlendModel((said([0]), said([0])), weights, (Scale(),) * scales)


def test_real_parts_are_heard_together(blend, ranker, encoder, examples):
    prompts = [e.prompt for e in examples[:6]]
    found = blend.predict(prompts, "a")
    lexical, other = ranker.model.predict(prompts), encoder.predict(prompts, "a")
    assert found.scores == pytest.approx(0.7 * lexical.scores + 0.3 * (2 * other.scores - 0.5))
    assert found.quantiles == pytest.approx(other.quantiles)
    assert np.array_equal(found.embeddings, other.embeddings)
    forecasts = LengthRanker(blend, ranker.calibration, "a").forecast(prompts)
    assert [f.sketch for f in forecasts] == sketches(other.embeddings)
    assert len({f.sketch for f in forecasts}) == len(set(prompts))
