from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranker.metrics import order
from ranker.types import FinishReason
from training.lexical import fit_lexical
from training.lists import rank_shares
from training.sources import Example
from training.targets import LEAST_ROWS, Targets, gather


def rows(model: str, *answers: tuple[str, int]) -> list[Example]:
    return [
        Example(prompt, tokens, FinishReason.STOP, model, str(i), "train")
        for i, (prompt, tokens) in enumerate(answers)
    ]


def test_draws_of_a_prompt_are_one_row_with_the_mean_of_their_ranks():
    found = Targets.of(rows("m", ("a", 10), ("b", 30), ("a", 20), ("a", 40)))
    assert found.prompts == ["a", "b"]
    shares = rank_shares(np.array([10.0, 30, 20, 40]), np.zeros(4, bool))
    assert found.shares == pytest.approx([shares[[0, 2, 3]].mean(), shares[1]])
    assert found.weights == pytest.approx([1.5, 1.0])


def test_a_bound_counts_as_where_it_is_expected_to_end():
    cut = rows("m", ("a", 10), ("b", 30), ("c", 20))
    cut[2] = Example("c", 20, FinishReason.LENGTH, "m", "2", "train")
    found = Targets.of(cut)
    lengths = np.array([10.0, 30, 20]), np.array([False, False, True])
    assert found.shares == pytest.approx(rank_shares(*lengths))
    assert found.shares[2] > Targets.of(rows("m", ("a", 10), ("b", 30), ("c", 20))).shares[2]


def test_every_model_is_ranked_among_its_own():
    own = rows("m", ("a", 1), ("b", 2))
    other = rows("n", ("a", 2000), ("c", 1000)) + rows("o", ("d", 7))
    found = gather(own, other, 0.5)
    assert found.prompts == ["a", "b", "a", "c", "d"]
    assert found.shares == pytest.approx([0.25, 0.75, 0.75, 0.25, 0.5])
    assert found.weights == pytest.approx([1, 1, 0.5, 0.5, 0.5])
    assert len(gather(own, [], 0.5)) == 2


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 999), st.booleans()), min_size=50, max_size=70), st.data())
def test_served_models_are_ranked_apart(lengths, data):
    """However much longer the answers of one are, and whatever else is served."""
    times = data.draw(st.integers(1, 50))
    whole, cut = (FinishReason.STOP, FinishReason.LENGTH)
    one, other = (
        [
            Example(f"{model} {i}", n * factor, cut if bound else whole, model, str(i), "train")
            for i, (n, bound) in enumerate(lengths)
        ]
        for model, factor in (("terse", 1), ("wordy", times))
    )
    found = Targets.of([*one, *other])
    alone = Targets.of(one).shares
    assert np.array_equal(found.shares, np.concatenate([alone, alone]))


def test_a_model_with_few_rows_is_ranked_among_all():
    many = rows("m", *((f"a{i}", 10 * i) for i in range(LEAST_ROWS)))
    few = rows("rare", ("b", 10_000), ("c", 0))
    found = Targets.of([*many, *few])
    assert np.array_equal(found.shares[:-2], Targets.of(many).shares)
    assert found.shares[-2] > 0.98
    assert found.shares[-1] < 0.03


def test_prompts_of_a_wordy_model_do_not_look_long(quick):
    """Essays are longer than dates; the wordy model is mostly asked for dates."""
    rng = np.random.default_rng(0)

    def asked(model: str, times: float, essays: float, count: int, split: str) -> list[Example]:
        found = []
        for i in range(count):
            word, middle = ("essay", 100) if rng.random() < essays else ("date", 30)
            tokens = int(times * rng.lognormal(np.log(middle), 0.5)) + 1
            prompt = f"{word} of {' '.join(rng.choice(list('abcdefgh'), 5))}"
            found.append(Example(prompt, tokens, FinishReason.STOP, model, str(i), split))
        return found

    training = asked("terse", 1, 0.8, 300, "train") + asked("wordy", 20, 0.2, 300, "train")
    model, _ = fit_lexical(training, quick.lexical)
    for name, times in (("terse", 1), ("wordy", 20)):
        test = asked(name, times, 0.5, 300, "test")
        scores = model.predict([e.prompt for e in test]).scores
        assert order(scores, [e.output_tokens for e in test], resamples=0).tau > 0.3


def test_weights_of_draws_are_those_of_the_prompt():
    """A lone draw gives its prompt its own weight; an old draw beside a new one takes none away."""

    def weighted(*answers: tuple[str, int, float]) -> list[Example]:
        return [
            Example(prompt, tokens, FinishReason.STOP, "m", str(i), "train", weight=weight)
            for i, (prompt, tokens, weight) in enumerate(answers)
        ]

    given = weighted(
        ("a", 10, 1.0), ("b", 30, 0.25), ("a", 20, 0.5), ("c", 40, 0.5), ("c", 50, 0.5)
    )
    found = Targets.of(given, 0.5)
    a, b, c = found.weights
    assert b == pytest.approx(0.5 * 0.25)
    assert c == pytest.approx(0.5 * 0.5 * 4 / 3)
    assert a == pytest.approx(0.5 * 2 * 1.5 / 2.5)
    assert 0.5 < a < 0.5 * 4 / 3
    # Of a weight of 2.75 in all, what is shorter and half of its own, in rising order of length.
    ten, twenty, thirty, forty, fifty = np.array([0.5, 1.25, 1.625, 2.0, 2.5]) / 2.75
    assert found.shares == pytest.approx([(ten + 0.5 * twenty) / 1.5, thirty, (forty + fifty) / 2])


def test_equal_weights_teach_what_no_weights_do():
    plain = rows("m", ("a", 10), ("b", 30), ("a", 20))
    same = Targets.of(plain)
    halved = Targets.of([replace(e, weight=0.5) for e in plain])
    assert halved.shares == pytest.approx(same.shares)
    assert halved.weights == pytest.approx(0.5 * same.weights)
