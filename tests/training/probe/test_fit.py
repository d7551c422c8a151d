"""A line through what a decoder knows after the prompt."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from ranker.artifact import load, save
from ranker.calibration import CalibrationConfig
from ranker.encoder.export import export_probe, graph_of
from ranker.encoder.model import ProbeModel
from ranker.encoder.text import padded
from ranker.types import LEVELS, FinishReason
from training.config import TrainConfig
from training.encoder.served_form import lost
from training.fit import train
from training.probe.config import ProbeConfig
from training.probe.fit import fit_probe

QUICK = ProbeConfig(length=24, precision="fp32", threads=1, batch=8)


@pytest.fixture(scope="module")
def fitted(rows, decoder_folder):
    return fit_probe(rows, QUICK, backbone=decoder_folder)


def _said(network, text, prompts):
    ids, mask = padded(text.ids(prompts), text.pad)
    with torch.no_grad():
        out = network(*map(torch.from_numpy, (ids, mask, np.zeros(len(ids), np.int64))))
    return [part.numpy() for part in out]


def test_it_orders_prompts_by_their_lengths(fitted, rows):
    held = [e for e in rows if e.split == "validation"]
    scores, logs, states = _said(fitted.network, fitted.text, [e.prompt for e in held])
    assert kendalltau(scores, [e.output_tokens for e in held]).statistic > 0.4
    assert len(fitted.taus) == 3
    assert fitted.taus[fitted.layer - 1] >= max(fitted.taus) - QUICK.slack
    assert all(tau < max(fitted.taus) - QUICK.slack for tau in fitted.taus[: fitted.layer - 1])
    assert logs.shape == (len(held), len(LEVELS))
    assert np.all(np.diff(logs, axis=1) >= 0.0)
    assert states.shape == (len(held), 32)
    # Half of the answers that ended lie below the median, whatever the calibration adds later.
    below = np.log1p([e.output_tokens for e in held]) <= logs[:, LEVELS.index(0.5)]
    assert 0.35 <= below.mean() <= 0.65


def test_what_fills_up_a_batch_changes_no_prompt(fitted):
    prompts = ["essay", "date of the river in a small town about winter in a town"]
    together = _said(fitted.network, fitted.text, prompts)
    for i, prompt in enumerate(prompts):
        alone = _said(fitted.network, fitted.text, [prompt])
        for one, many in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], many[i], atol=1e-5)


def test_same_rows_same_probe_and_a_layer_can_be_named(fitted, rows, decoder_folder):
    again = fit_probe(rows, QUICK, backbone=decoder_folder)
    prompts = [e.prompt for e in rows[:20]]
    for one, other in zip(
        _said(fitted.network, fitted.text, prompts),
        _said(again.network, again.text, prompts),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    named = fit_probe(rows, dataclasses.replace(QUICK, layer=3), backbone=decoder_folder)
    assert (named.layer, len(named.taus)) == (3, 1)


def test_answers_elsewhere_help_and_test_rows_are_not_looked_at(fitted, rows, decoder_folder):
    prompts = [e.prompt for e in rows[:20]]
    test = [dataclasses.replace(e, split="test", output_tokens=1) for e in rows[:100]]
    same = fit_probe([*rows, *test], QUICK, backbone=decoder_folder)
    np.testing.assert_array_equal(
        _said(same.network, same.text, prompts)[0], _said(fitted.network, fitted.text, prompts)[0]
    )
    others = [dataclasses.replace(e, model="other", split="train") for e in rows[:60]]
    helped = fit_probe(rows, QUICK, auxiliary=others, backbone=decoder_folder)
    alone = dataclasses.replace(QUICK, auxiliary_weight=0.0)
    plain = fit_probe(rows, alone, auxiliary=others, backbone=decoder_folder)
    scores = [_said(f.network, f.text, prompts)[0] for f in (fitted, helped, plain)]
    assert not np.allclose(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def test_draws_of_a_prompt_are_one_row_and_a_bound_is_no_length(rows, decoder_folder):
    own = [dataclasses.replace(e, prompt=f"essay {e.id}") for e in rows[:2]]
    twice = [*rows, *(dataclasses.replace(e, id=f"{e.id}-2") for e in rows)]
    doubled = fit_probe(twice, QUICK, backbone=decoder_folder)
    prompts = [e.prompt for e in (*rows[:20], *own)]
    once = fit_probe(rows, QUICK, backbone=decoder_folder)
    one, two = (_said(f.network, f.text, prompts)[0] for f in (once, doubled))
    assert kendalltau(one, two).statistic > 0.95
    # Cut at 30 tokens, all that is longer is only known to be.
    cut = [
        dataclasses.replace(
            e, output_tokens=min(e.output_tokens, 30),
            finish_reason=FinishReason.LENGTH if e.output_tokens > 30 else e.finish_reason,
        )
        for e in rows
    ]  # fmt: skip
    bounded = fit_probe(cut, QUICK, backbone=decoder_folder)
    held = [e for e in rows if e.split == "validation"]
    scores, logs, _ = _said(bounded.network, bounded.text, [e.prompt for e in held])
    assert kendalltau(scores, [e.output_tokens for e in held]).statistic > 0.3
    assert np.expm1(logs[:, LEVELS.index(0.9)]).max() > 30.0


def test_few_rows_choose_the_layer_and_all_are_learned(rows, decoder_folder):
    some = fit_probe(rows, dataclasses.replace(QUICK, most_rows=50), backbone=decoder_folder)
    named = dataclasses.replace(QUICK, layer=some.layer)
    whole = fit_probe(rows, named, backbone=decoder_folder)
    prompts = [e.prompt for e in rows[:20]]
    np.testing.assert_allclose(
        _said(some.network, some.text, prompts)[0],
        _said(whole.network, whole.text, prompts)[0],
        atol=1e-3,
    )


def test_it_serves_as_it_was_fitted_and_comes_back_from_disk(fitted, tmp_path):
    model = export_probe(fitted.network, fitted.text)
    assert model.kind == "probe"
    prompts = [f"{word} of the river {i % 7 * 'in a town '}" for i in range(40) for word in "ab"]
    assert lost(model, fitted.network, prompts)["kendall"] > 0.8
    again = ProbeModel(graph_of(fitted.network).SerializeToString(), fitted.text)
    exact = _said(fitted.network, fitted.text, prompts)[0]
    np.testing.assert_allclose(again.predict(prompts).scores, exact, atol=1e-4)


def test_a_ranker_of_it_is_trained_saved_and_read(rows, decoder_folder, tmp_path):
    config = TrainConfig(
        tier="probe",
        probe=dataclasses.replace(QUICK, backbone=str(decoder_folder)),
        calibration=CalibrationConfig(),
    )
    trained = train(rows, config, served_model="toy", name="probe")
    assert trained.metrics["validation.probe.tau"] > 0.4
    assert 1 <= trained.metrics["probe.layer"] <= 3
    assert trained.metrics["probe.int8.tau_to_torch"] > 0.8
    save(trained.ranker, tmp_path / "ranker")
    read = load(tmp_path / "ranker")
    assert read.model.kind == "probe"
    prompts = ["essay about the river", "date of winter", "", "\ud800 ☃", "town " * 500]
    one, other = read.forecast(prompts), trained.ranker.forecast(prompts)
    assert [(f.score, f.quantiles, f.sketch) for f in one] == [
        (f.score, f.quantiles, f.sketch) for f in other
    ]
    assert config.params()["probe.layer"] == 0


def test_what_it_cannot_do_is_said(rows, decoder_folder):
    two = [dataclasses.replace(e, model=f"m{i % 2}") for i, e in enumerate(rows)]
    with pytest.raises(ValueError, match="a probe is of one served model"):
        fit_probe(two, QUICK, backbone=decoder_folder)
    with pytest.raises(ValueError, match=r"probe\.layer must be at most 3, .* got 4"):
        fit_probe(rows, dataclasses.replace(QUICK, layer=4), backbone=decoder_folder)
    with pytest.raises(ValueError, match=r"probe\.length must be at most 64"):
        fit_probe(rows, dataclasses.replace(QUICK, length=65), backbone=decoder_folder)
    with pytest.raises(ValueError, match="too few"):
        fit_probe(rows[:20], QUICK, backbone=decoder_folder)
    elsewhere = dataclasses.replace(QUICK, backbone="no/such/decoder")
    with pytest.raises(ValueError, match=r"probe\.backbone 'no/such/decoder'"):
        train(rows, TrainConfig(tier="probe", probe=elsewhere), served_model="toy", name="p")
    for changes, text in (
        ({"length": 1}, "probe.length"),
        ({"head_share": 1.0}, "probe.head_share"),
        ({"slack": -0.1}, "probe.slack"),
        ({"precision": "int4"}, "probe.precision"),
    ):
        with pytest.raises(ValueError, match=text):
            ProbeConfig(**changes)
