"""Words and an encoder, trained, exported and blended, as ``shortfirst train`` does it."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("onnxscript")

from ranker.calibration import CalibrationConfig
from training.config import BLEND, TrainConfig
from training.encoder import checkpoint
from training.fit import train
from training.lexical_config import LexicalConfig, TreeConfig


@pytest.mark.slow
def test_both_tiers_are_trained_and_say_what_they_are_worth(rows, quick, backbone, tmp_path):
    config = TrainConfig(
        tier=BLEND,
        lexical=LexicalConfig(trees=TreeConfig(rounds=20)),
        encoder=replace(quick, backbone=str(backbone)),
        calibration=CalibrationConfig(knots=9),
    )
    steps, stages = [], []
    made = train(
        rows,
        config,
        served_model="toy",
        name="toys",
        workdir=tmp_path,
        progress=lambda stage, *_: stages.append(stage),
        watch=steps.append,
    )
    told = made.metrics
    assert told["encoder.int8.tau_to_torch"] > 0.9
    assert told["blend.weight.lexical"] + told["blend.weight.encoder"] == pytest.approx(1.0)
    best = max(told["validation.lexical.tau"], told["validation.encoder.tau"])
    assert told["validation.model.tau"] > best - 0.05
    assert [step.loss for step in steps] == list(made.curves["encoder"])
    assert list(dict.fromkeys(stages))[-3:] == [
        "Training the encoder", "Exporting the encoder", "Calibrating",
    ]  # fmt: skip
    assert (tmp_path / checkpoint.NAME).is_file()
    long, short = made.ranker.forecast(["essay of a town", "date of a town"])
    assert long.score > short.score
    assert long.median > 2 * short.median
