"""What a caller may change about logits, against plain NumPy and the definitions of others."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.sampler import sample
from engine.sampler_logits import adjust
from engine.sampling import SamplingParams
from engine.sequence import Sequence

VOCABULARY = 300
EOS = 2


def row(seed=0, spread=2.0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, spread, VOCABULARY)).float()


def sequence(prompt=(1,), output=(), **params):
    made = Sequence.start("a", prompt, SamplingParams(**({"seed": 0} | params)), {EOS})
    for token in output:
        made.append(token)
    return made


def adjusted(logits, one):
    rows = logits[None].clone()
    adjust(rows, [one], [0])
    return rows[0].numpy()


def test_the_repetition_penalty_is_that_of_transformers():
    from transformers import RepetitionPenaltyLogitsProcessor

    used = [4, 9, 9, 77, 211]
    expected = RepetitionPenaltyLogitsProcessor(1.8)(torch.tensor([used]), row()[None].clone())
    for split in (0, 2, 5):
        one = sequence(used[:split] or [4], used[split:], repetition_penalty=1.8)
        assert adjusted(row(), one) == pytest.approx(expected[0].numpy(), abs=1e-6)


def test_frequency_and_presence_are_those_of_openai():
    """mu[j] -> mu[j] - c[j] * frequency - (c[j] > 0) * presence, c counted in the output alone."""
    output = [4, 9, 9, 9, 77]
    one = sequence([5, 9, 211], output, frequency_penalty=0.5, presence_penalty=-0.25)
    counts = np.bincount(output, minlength=VOCABULARY)
    expected = row().numpy() - counts * 0.5 - (counts > 0) * -0.25
    assert adjusted(row(), one) == pytest.approx(expected, abs=1e-6)


@given(
    prompt=st.lists(st.integers(0, 40), min_size=1, max_size=20),
    output=st.lists(st.integers(0, 40), max_size=150),
    repetition=st.sampled_from([0.5, 1.0, 1.3]),
    frequency=st.sampled_from([-1.0, 0.0, 0.7]),
    presence=st.sampled_from([0.0, 1.1]),
    bias=st.dictionaries(st.integers(0, 50), st.floats(-100, 100, width=32), max_size=5),
    min_tokens=st.sampled_from([0, 1, 60, 400]),
    stops=st.lists(st.integers(0, 50), max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_all_together_in_order(
    prompt, output, repetition, frequency, presence, bias, min_tokens, stops
):
    one = sequence(
        prompt, output, repetition_penalty=repetition, frequency_penalty=frequency,
        presence_penalty=presence, logit_bias=tuple(bias.items()), min_tokens=min_tokens,
        stop_token_ids=tuple(stops),
    )  # fmt: skip
    expected = row().numpy().astype(np.float64)
    for token, added in bias.items():
        expected[token] += added
    if len(output) < min_tokens:
        expected[[EOS, *stops]] = -np.inf
    for token in {*prompt, *output}:
        expected[token] *= repetition if expected[token] < 0 else 1 / repetition
    for token in set(output):
        expected[token] -= frequency * output.count(token) + presence
    assert adjusted(row(), one) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_a_bias_of_100_decides():
    (token,) = sample(row()[None], [sequence(logit_bias=((211, 100),))])
    assert token.id == 211


def test_an_answer_cannot_end_before_its_least_length():
    logits = row()
    logits[EOS], logits[7] = 50.0, 40.0
    for drawn in ({"temperature": 0.0}, {}):
        one = sequence(min_tokens=2, stop_token_ids=(7,), **drawn)
        for _ in range(2):
            (token,) = sample(logits[None], [one])
            assert token.id not in (EOS, 7)
            one.append(token.id)
        assert sample(logits[None], [one])[0].id == EOS
    # One that runs past its end has no end to keep from.
    assert sample(logits[None], [sequence(min_tokens=2, ignore_eos=True)])[0].id == EOS


def test_log_probabilities_are_the_models_own():
    """Of the raw logits: temperature, biases, penalties and filters change nothing about them."""
    logits = row()
    logits[[3, 8]] = 9.0  # equally likely: the lower id first
    expected = torch.log_softmax(logits.double(), -1).numpy()
    plain = sample(logits[None], [sequence(temperature=0.0, logprobs=4)])[0]
    order = np.argsort(-logits.numpy(), kind="stable")[:4]
    assert plain.id == 3
    assert [token for token, _ in plain.top] == order.tolist()
    assert [logprob for _, logprob in plain.top] == pytest.approx(expected[order], abs=1e-6)
    changed = sequence(
        (3, 8), (8,), temperature=0.3, top_k=3, repetition_penalty=1.5, logit_bias=((90, 30.0),),
        logprobs=4,
    )  # fmt: skip
    bent = sample(logits[None], [changed])[0]
    assert bent.id == 90
    assert bent.logprob == pytest.approx(expected[90], abs=1e-6)
    assert bent.top == plain.top
    assert sample(logits[None], [sequence(logprobs=0)])[0].top == ()
    assert sample(logits[None], [sequence()])[0].logprob is None


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 0.3, 1.0, 2.5]),
        "top_p": st.sampled_from([0.1, 0.7, 0.95]),
        "top_k": st.sampled_from([1, 5, 120, 1000]),
        "min_p": st.sampled_from([0.001, 0.2]),
        "repetition_penalty": st.just(1.2),
        "frequency_penalty": st.just(0.4),
        "logit_bias": st.just(((5, 2.0), (6, -50.0))),
        "min_tokens": st.just(3),
        "logprobs": st.sampled_from([0, 1, 20]),
    },
)


@given(st.lists(st.tuples(SETTINGS, st.integers(0, 9)), min_size=1, max_size=7), st.booleans())
@settings(max_examples=120, deadline=None)
def test_neighbours_change_nothing(asked, half):
    """Bit for bit, log probabilities included."""

    def make(i, params):
        return Sequence.start(str(i), [1, 5, 9], SamplingParams(seed=i, **params), {EOS})

    dtype = torch.bfloat16 if half else torch.float32
    logits = torch.stack([row(seed, spread=0.5 + seed) for _, seed in asked]).to(dtype)
    together = sample(logits, [make(i, params) for i, (params, _) in enumerate(asked)])
    for i, (params, _) in enumerate(asked):
        assert sample(logits[i : i + 1], [make(i, params)])[0] == together[i]


def test_the_logits_are_left_as_they_are():
    logits = row()[None]
    before = logits.clone()
    sample(logits, [sequence(logit_bias=((1, 5.0),), min_tokens=3, repetition_penalty=2.0)])
    assert torch.equal(logits, before)
