from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ranker.lexical import LexicalModel
from ranker.prediction import Prediction
from training.fit import train
from training.said import said_of


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """Prompts as the model reads them, one after the other."""
    found: list[str] = []
    plain = LexicalModel.predict

    def predict(self, prompts: Sequence[str], served_model: str = "") -> Prediction:
        found.extend(prompts)
        return plain(self, prompts, served_model)

    monkeypatch.setattr(LexicalModel, "predict", predict)
    return found


def test_training_reads_a_validation_prompt_once_whatever_its_draws(examples, quick, read):
    drawn = [*examples, *(replace(e, output_tokens=e.output_tokens + 9) for e in examples)]
    trained = train(drawn, quick, served_model="toy", name="r")
    held = [e.prompt for e in examples if e.split == "validation"]
    assert read == held
    held_rows = [e for e in drawn if e.split == "validation"]
    said = said_of(trained.ranker.model, held_rows, "toy")
    direct = trained.ranker.model.predict([e.prompt for e in held_rows])
    assert np.array_equal(said.scores, direct.scores)
    assert said.quantiles is None


def test_rows_of_a_prediction_move_together():
    rng = np.random.default_rng(0)
    whole = Prediction(rng.normal(size=4), rng.normal(size=(4, 12)), rng.normal(size=(4, 3)))
    rows = np.array([2, 0, 2, 3])
    found = whole.at(rows)
    for part, of in zip(
        (found.scores, found.quantiles, found.embeddings),
        (whole.scores, whole.quantiles, whole.embeddings),
        strict=True,
    ):
        assert np.array_equal(part, of[rows])
