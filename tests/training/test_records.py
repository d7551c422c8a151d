"""What a run leaves for people: plots, the card, where the code came from."""

from __future__ import annotations

import io
import subprocess

import numpy as np
import pytest

from ranker.calibration import fit
from ranker.length_ranker import LengthRanker
from ranker.prediction import Prediction
from ranker.types import FinishReason, Forecast
from training.card import card
from training.evaluate import evaluate, flatness
from training.plots import plots
from training.provenance import code, provenance
from training.slices import by_slice
from training.sources import Data, Example

SECRET = "zanzibar"


def example(prompt, tokens, finish=FinishReason.STOP):
    return Example(prompt, tokens, finish, "toy", "1", "test")


def forecast(score):
    return Forecast(score, (1.0 + abs(score), 2.0 + abs(score), 5.0 + abs(score)), "r", "1",
                    (0.1, 0.5, 0.9))  # fmt: skip


@pytest.mark.parametrize("rows", [1, 30, 300])
def test_plots_are_small_pictures_and_the_same_each_time(rows):
    from PIL import Image

    rng = np.random.default_rng(1)
    finish = [FinishReason.STOP, FinishReason.LENGTH]
    examples = [
        example(SECRET + "x" * int(n), int(t), finish[i % 7 == 0])
        for i, (n, t) in enumerate(rng.integers(0, 99, (rows, 2)))
    ]
    forecasts = [forecast(s) for s in rng.normal(size=rows)]
    found = plots(forecasts, examples)
    assert list(found) == ["calibration", "tau-by-length", "score-against-length"]
    for image in found.values():
        assert len(image) < 150_000
        assert SECRET.encode() not in image
        shades = np.asarray(Image.open(io.BytesIO(image)).convert("L"))
        assert min(shades.shape) > 300
        assert shades.std() > 5.0  # something was drawn
    if rows == 1:
        assert plots(forecasts, examples) == found


class Characters:
    kind = "lexical"

    def predict(self, prompts, served_model=""):
        return Prediction(np.array([len(p) for p in prompts], dtype=np.float64))


def test_the_card_says_what_a_user_must_know(examples):
    calibration = fit([len(e.prompt) for e in examples], [e.output_tokens for e in examples],
                      [False] * len(examples))  # fmt: skip
    ranker = LengthRanker(Characters(), calibration, "org/toy", "r")
    data = Data("toys", "file:///log.jsonl", tuple(examples))
    test = data.split("test")
    forecasts = ranker.forecast([e.prompt for e in test])
    table = evaluate({"r": ranker}, test)
    parts = by_slice(forecasts, test)
    text = card(ranker, data, table, parts, flatness(forecasts, test), "2026-01-02")
    assert text.startswith("---\n")
    assert len(text) < 5000  # what a registry takes as a description
    for said in ("`org/toy`", "file:///log.jsonl", "300 rows trained", f"{table[0].tau:.3f}",
                 "## Slices", "no-code", "## Limits", "## Licence", "Apache-2.0",
                 "models:/r@champion", "boosted trees"):  # fmt: skip
        assert said in text
    assert not any(e.prompt in text for e in examples)
    assert "None has rows enough" in card(
        ranker, data, table, [], flatness(forecasts, test), "2026-01-02"
    )


def test_the_commit_is_that_of_the_repository_that_knows_the_file(tmp_path):
    def git(*arguments):
        done = subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    file = tmp_path / "code.py"
    file.write_text("1")
    assert "mlflow.source.git.commit" not in provenance(file)
    git("init", "-q")
    assert "mlflow.source.git.commit" not in provenance(file)  # a repository of something else
    git("add", "code.py")
    git("commit", "-qm", "x")
    found = provenance(file)
    assert found["mlflow.source.git.commit"] == git("rev-parse", "HEAD")
    assert found["git.changed"] == "no"
    file.write_text("2")
    assert provenance(file)["git.changed"] == "yes"
    assert found["version.python"].startswith("3.")
    assert "version.numpy" in found


def test_another_line_of_code_is_another_digest(tmp_path):
    for part in ("ranker", "training/recipes", "serving"):
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / "a.py").write_text("a = 1\n")
    first = code(tmp_path)
    (tmp_path / "serving" / "a.py").write_text("a = 2\n")
    (tmp_path / "ranker" / "notes.txt").write_text("no code")
    assert code(tmp_path) == first
    (tmp_path / "training" / "recipes" / "a.py").write_text("a = 2\n")
    changed = code(tmp_path)
    (tmp_path / "ranker" / "a.py").rename(tmp_path / "ranker" / "b.py")
    assert len({first, changed, code(tmp_path), code()}) == 4
