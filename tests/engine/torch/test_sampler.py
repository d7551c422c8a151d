"""The sampler against distributions re-derived with NumPy, and against transformers' filters."""

import numpy as np
import pytest
import torch
from scipy import stats

from engine.sampler import sample
from engine.sampler_draw import argmax, inverse_transform
from engine.sampler_filter import _draw_sorted, draw_filtered
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.spans import row_sums


def sequences(count, prompt=(1,), **params):
    return [Sequence.start(str(i), prompt, SamplingParams(seed=i, **params)) for i in range(count)]


def logits_row(vocabulary=600, seed=0, spread=2.0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, spread, vocabulary)).float()


def ids(logits, sequences):
    return [None if token is None else token.id for token in sample(logits, sequences)]


def draws(row, count, **params):
    return np.array(ids(row.expand(count, -1), sequences(count, **params)))


def probabilities(row, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    """By definition: scale, keep min_p, keep k, keep the smallest set that reaches p, normalise."""
    p = np.exp(row.numpy().astype(np.float64) / temperature)
    p[p < min_p * p.max()] = 0
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if top_k:
        p[order[top_k:]] = 0
        p /= p.sum()
    if top_p < 1:
        mass_before = np.cumsum(p[order]) - p[order]
        p[order[mass_before >= top_p]] = 0
        p /= p.sum()
    return p


@pytest.mark.parametrize(
    "params",
    [{}, {"temperature": 0.5}, {"top_k": 20}, {"top_p": 0.7}, {"top_k": 50, "top_p": 0.9},
     {"temperature": 1.7, "top_p": 0.95}, {"min_p": 0.1},
     {"min_p": 0.02, "top_k": 40, "top_p": 0.8}, {"min_p": 0.05, "top_p": 0.9}],
    ids=str,
)  # fmt: skip
def test_draws_follow_the_distribution(params):
    row = logits_row()
    p = probabilities(row, **params)
    got = draws(row, 20_000, **params)
    counts = np.bincount(got, minlength=len(p))
    assert counts[p == 0].sum() == 0
    # Pool the rare tokens so that chi-squared holds.
    order = np.argsort(-p)
    cut = int(np.searchsorted(-p[order] * 20_000, -10))
    observed = np.append(counts[order[:cut]], counts[order[cut:]].sum())
    expected = np.append(p[order[:cut]], p[order[cut:]].sum()) * 20_000
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_a_nucleus_larger_than_the_first_candidates():
    """Flat logits: top-p holds thousands of tokens, more than the cheap path looks at."""
    row = torch.zeros(4000)
    got = draws(row, 3000, top_p=0.5)
    assert len(np.unique(got)) > 1000
    assert len(np.unique(got)) <= 2000


@pytest.mark.parametrize(
    ("top_k", "top_p"), [(7, 1.0), (0, 0.6), (30, 0.8), (0, 1e-9), (9999, 0.5)]
)
def test_selecting_draws_what_sorting_draws(top_k, top_p):
    """The way of a GPU, which sorts, on the CPU: the same tokens, ties included."""
    rows = torch.stack(
        [logits_row(seed=i).mul(4).round() / 4 for i in range(8)] + [torch.zeros(600)]
    )
    weights = (rows - rows.amax(1, keepdim=True)).exp()
    ks, ps = [top_k] * len(rows), [top_p] * len(rows)
    for step in range(20):
        uniform = torch.full((len(rows),), step / 20 + 0.001, dtype=torch.float64)
        got = draw_filtered(weights, ks, ps, uniform)
        assert got.tolist() == _draw_sorted(weights, row_sums(weights), ks, ps, uniform).tolist()


@pytest.mark.parametrize("vocabulary", [1, 5, 255, 256, 257, 49152])
def test_argmax_is_the_first_of_the_largest(vocabulary):
    rows = torch.randint(0, 50, (7, vocabulary), generator=torch.Generator().manual_seed(0))
    assert argmax(rows.float()).tolist() == rows.numpy().argmax(1).tolist()


def test_temperature_zero_is_greedy_and_mixes_with_drawing():
    rows = torch.stack([logits_row(seed=i) for i in range(6)])
    mixed = sequences(6, temperature=0.0)
    mixed[3] = Sequence.start("3", [1], SamplingParams(seed=3))
    got = ids(rows, mixed)
    best = rows.argmax(1).tolist()
    assert got[:3] + got[4:] == best[:3] + best[4:]


@pytest.mark.parametrize("temperature", [1e-4, 1e-30])
def test_a_tiny_temperature_is_greedy(temperature):
    row = logits_row()
    assert set(draws(row, 50, temperature=temperature)) == {int(row.argmax())}


def test_top_k_one_is_greedy():
    row = logits_row()
    assert set(draws(row, 50, top_k=1, temperature=3.0)) == {int(row.argmax())}


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
def test_no_draw_of_weight_zero(uniform):
    weights = torch.zeros(1, 600)
    weights[0, [3, 300, 599 - 50]] = torch.tensor([1e-30, 1e-30, 2e-30])
    token = inverse_transform(weights, torch.tensor([uniform], dtype=torch.float64))
    assert token.item() in (3, 300, 549)


def test_the_seed_decides_alone():
    row = logits_row()
    one = Sequence.start("a", [1], SamplingParams(seed=7))
    two = Sequence.start("b", [1], SamplingParams(seed=7))
    noise = sequences(5)
    for _ in range(10):
        alone = ids(row[None], [one])
        crowd = ids(torch.stack([logits_row(seed=9)] * 5 + [row]), [*noise, two])
        assert alone[0] == crowd[-1]


@pytest.mark.parametrize("vocabulary", [300, 512, 1000])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "params", [{"temperature": 0.0}, {}, {"top_k": 5}, {"top_p": 0.5}], ids=str
)
def test_a_row_that_is_not_finite_fails_alone(vocabulary, bad, params):
    rows = torch.stack([logits_row(vocabulary, seed=i) for i in range(3)])
    alone = ids(rows, sequences(3, **params))
    rows[1] = bad
    assert ids(rows, sequences(3, **params)) == [alone[0], None, alone[2]]


def test_one_nan_among_finite_logits_is_found():
    rows = torch.stack([logits_row(700), logits_row(700)])
    rows[0, 650] = float("nan")
    assert ids(rows, sequences(2, temperature=0.0)) == [None, int(rows[1].argmax())]


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_tokens", 0), ("max_tokens", -3), ("max_tokens", 1.5), ("max_tokens", True),
     ("temperature", -0.1), ("temperature", float("nan")), ("temperature", "1"), ("top_p", 0.0),
     ("top_p", 1.01), ("top_k", -1), ("seed", -1), ("seed", 2**64), ("ignore_eos", 1),
     ("repetition_penalty", 0.0), ("repetition_penalty", 1e-300),
     ("repetition_penalty", float("inf")), ("presence_penalty", 2.1), ("frequency_penalty", -3),
     ("min_p", 1.5), ("min_tokens", -1), ("stop", ("",)), ("stop", ("x" * 300,)), ("stop", "x"),
     ("stop", ("x",) * 40), ("stop_token_ids", (-1,)), ("logprobs", 21), ("prompt_logprobs", -1),
     ("logit_bias", ((1, 101.0),)), ("logit_bias", ((-1, 1.0),)), ("skip_special_tokens", 1),
     ("include_stop_str_in_output", None)],
)  # fmt: skip
def test_sampling_params_name_the_field(field, value):
    with pytest.raises(ValueError, match=f"^{field} must"):
        SamplingParams(**{field: value})


def test_a_temperature_below_what_float32_can_tell_is_greedy():
    assert SamplingParams(temperature=1e-320).greedy
    assert not SamplingParams(temperature=1e-3).greedy
