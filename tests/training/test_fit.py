from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ranker.metrics import order
from ranker.types import FinishReason
from training.config import TrainConfig
from training.fit import train
from training.lexical import fit_lexical
from training.lexical_config import LABELS, OBJECTIVES


def fitted(examples, config, **options):
    return train(examples, config, served_model="toy", name="length-ranker-toy", **options)


def trees(config, **changes):
    """``config`` with other settings of the trees."""
    lexical = replace(config.lexical, trees=replace(config.lexical.trees, **changes))
    return replace(config, lexical=lexical)


def tau(trained, examples) -> float:
    held = [e for e in examples if e.split == "test"]
    scores = trained.ranker.model.predict([e.prompt for e in held]).scores
    return order(scores, [e.output_tokens for e in held], resamples=0).tau


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("label", LABELS)
def test_every_objective_learns_the_order(examples, quick, objective, label):
    config = trees(quick, objective=objective, label=label)
    trained = fitted(examples, config)
    assert tau(trained, examples) > 0.4
    assert len(trained.curves["lexical"]) == config.lexical.trees.rounds
    assert all(np.isfinite(trained.curves["lexical"]))


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


def test_other_models_answers_help_where_own_ones_are_few_and_noisy(examples, helpers, quick):
    rng = np.random.default_rng(0)
    few = [
        replace(e, output_tokens=int(e.output_tokens * rng.lognormal(0.0, 3.0)) + 1)
        if e.split == "train"
        else e
        for i, e in enumerate(examples)
        if e.split != "train" or i % 5 == 0
    ]
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
    none = replace(quick, lexical=replace(quick.lexical, auxiliary_weight=0.0))
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


@pytest.mark.parametrize("label", LABELS)
def test_draws_and_bounds_are_learnt_from(examples, quick, label):
    twice = [replace(e, output_tokens=2 * e.output_tokens) for e in examples if e.split == "train"]
    drawn = [*examples, *twice]
    cut = [
        replace(e, output_tokens=min(e.output_tokens, 200), finish_reason=FinishReason.LENGTH)
        if e.output_tokens >= 200
        else e
        for e in drawn
    ]
    config = trees(quick, label=label)
    assert tau(fitted(cut, config), examples) > 0.4


def test_trees_grow_on_a_sample_of_many_rows(examples, quick):
    few = trees(quick, most_rows=150)
    trained = fitted(examples, few)
    assert tau(trained, examples) > 0.4
    assert fitted(examples, few).ranker.forecast(["an essay"]) == trained.ranker.forecast(
        ["an essay"]
    )


def test_only_bounds_leave_no_lengths_to_learn(examples, quick):
    cut = [replace(e, finish_reason=FinishReason.ABORT) for e in examples]
    config = trees(quick, label="log_tokens")
    with pytest.raises(ValueError, match="answers that ended"):
        fit_lexical(cut, config.lexical)
    with pytest.raises(ValueError, match="no training rows"):
        fit_lexical([], quick.lexical)


def test_too_few_rows_are_refused(examples):
    with pytest.raises(ValueError, match="too few to train on"):
        fitted(examples[:40], TrainConfig())
    with pytest.raises(ValueError, match="0 validation rows"):
        fitted([e for e in examples if e.split == "train"], TrainConfig())


def test_recent_rows_outweigh_older_ones_that_say_the_opposite(examples, quick):
    """Each word used to mean what the other means now."""
    means = {"essay": "date", "date": "essay"}
    train_rows = [e for e in examples if e.split == "train"]
    old = [
        replace(e, prompt=f"{means[e.prompt.split()[0]]} {e.prompt.partition(' ')[2]}")
        for e in train_rows
    ]
    held = [e for e in examples if e.split != "train"]

    def learned(half_life: float) -> float:
        rows = [*old, *train_rows]
        weights = np.exp2(-np.arange(len(rows))[::-1] / half_life)
        weighted = [replace(e, weight=w) for e, w in zip(rows, weights, strict=True)]
        return tau(fitted([*weighted, *held], quick), examples)

    assert abs(learned(1e9)) < 0.2
    assert learned(100.0) > 0.4
