from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ranker.metrics import order
from ranker.types import FinishReason
from training.config import FitConfig, TreeConfig
from training.fit import train


def fitted(examples, config, **options):
    return train(examples, config, served_model="toy", name="length-ranker-toy", **options)


def tau(trained, examples) -> float:
    held = [e for e in examples if e.split == "test"]
    scores = trained.ranker.model.predict([e.prompt for e in held]).scores
    return order(scores, [e.output_tokens for e in held], resamples=0).tau


@pytest.mark.parametrize("objective", ["regression_l1", "lambdarank"])
def test_both_objectives_learn_the_order(examples, quick, objective):
    config = replace(quick, trees=replace(quick.trees, objective=objective))
    trained = fitted(examples, config)
    assert tau(trained, examples) > 0.4
    assert len(trained.curve) == config.trees.rounds
    assert all(np.isfinite(trained.curve))


def test_the_same_input_gives_the_same_ranker(examples, quick):
    one, two = fitted(examples, quick), fitted(examples, quick)
    assert one.ranker.model.trees.model_to_string() == two.ranker.model.trees.model_to_string()
    assert np.array_equal(one.ranker.calibration.table, two.ranker.calibration.table)


def test_test_rows_are_not_looked_at(examples, quick):
    changed = [replace(e, output_tokens=1) if e.split == "test" else e for e in examples]
    without = [e for e in examples if e.split != "test"]
    prompts = [e.prompt for e in examples]
    expected = fitted(examples, quick).ranker.forecast(prompts)
    assert fitted(changed, quick).ranker.forecast(prompts) == expected
    assert fitted(without, quick).ranker.forecast(prompts) == expected


def test_other_models_answers_help_where_own_ones_are_few(examples, helpers, quick):
    few = [e for i, e in enumerate(examples) if e.split != "train" or i % 5 == 0]
    alone = fitted(few, quick)
    helped = fitted(few, quick, auxiliary=helpers)
    assert tau(helped, examples) > tau(alone, examples)
    # They are another model's lengths: calibration does not see them.
    own = [e.output_tokens for e in few if e.split == "validation"]
    assert helped.ranker.calibration.table.max() <= max(own)


def test_held_out_rows_of_other_models_are_not_trained_on(examples, helpers, quick):
    prompts = [e.prompt for e in examples]
    every = fitted(examples, quick, auxiliary=helpers).ranker.forecast(prompts)
    train_only = [e for e in helpers if e.split == "train"]
    assert fitted(examples, quick, auxiliary=train_only).ranker.forecast(prompts) == every
    none = replace(quick, auxiliary_weight=0.0)
    assert fitted(examples, none, auxiliary=helpers).ranker.forecast(prompts) == fitted(
        examples, none
    ).ranker.forecast(prompts)


def test_a_limit_does_not_shorten_the_forecast(examples, quick):
    cut = [
        replace(e, output_tokens=300, finish_reason=FinishReason.LENGTH)
        if e.output_tokens > 300
        else e
        for e in examples
    ]
    as_if = [replace(e, finish_reason=FinishReason.STOP) for e in cut]
    prompts = [e.prompt for e in examples if e.prompt.startswith("essay")]
    honest = np.mean([f.quantile(0.9) for f in fitted(cut, quick).ranker.forecast(prompts)])
    naive = np.mean([f.quantile(0.9) for f in fitted(as_if, quick).ranker.forecast(prompts)])
    assert naive <= 300 < honest


def test_too_few_rows_are_refused(examples):
    with pytest.raises(ValueError, match="too few to train on"):
        fitted(examples[:40], FitConfig(trees=TreeConfig(rounds=1)))
    with pytest.raises(ValueError, match="0 validation rows"):
        fitted([e for e in examples if e.split == "train"], FitConfig())
