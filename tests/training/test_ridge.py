from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from ranker.ngrams import NgramConfig, count
from ranker.window import Window
from training import ridge as module
from training.ridge import Words, relevance, ridge

CONFIG = NgramConfig(bits=12)
PROMPTS = [
    " ".join(np.random.default_rng(i).choice(list("abcdefgh"), 1 + i % 7)) for i in range(150)
]


@pytest.fixture
def words(monkeypatch) -> Words:
    monkeypatch.setattr(module, "_CHUNK", 64)  # three blocks
    monkeypatch.setattr(module, "_TOLERANCE", 1e-8)
    return Words.of(PROMPTS, CONFIG, Window())


@pytest.fixture
def targets() -> np.ndarray:
    return np.random.default_rng(0).random(len(PROMPTS)) + [p.count("a") for p in PROMPTS]


def dense(words: Words) -> np.ndarray:
    return np.vstack([block.toarray() for block in words.blocks])


def test_words_are_dampened_counts_of_the_buckets_that_two_prompts_share(words):
    counts = count(PROMPTS, CONFIG, Window())
    table = np.zeros((len(PROMPTS), CONFIG.buckets))
    for i in range(len(counts)):
        span = slice(counts.starts[i], counts.starts[i + 1])
        table[i, counts.buckets[span]] = 1 + np.log(counts.counts[span])
    shared = np.count_nonzero(table, axis=0) >= 2
    assert words.kept.tolist() == np.flatnonzero(shared).tolist()
    assert dense(words) == pytest.approx(table[:, shared], rel=1e-6)
    seen = np.count_nonzero(table, axis=0)[shared]
    assert words.idf == pytest.approx(np.log(151 / (1 + seen)) + 1)


def test_relevance_is_a_shrunk_difference_of_means(words, targets):
    weights = np.random.default_rng(1).random(len(PROMPTS))
    there = dense(words) > 0
    mean = np.average(targets, weights=weights)
    z = [
        abs((weights * (targets - mean))[t].sum()) / np.sqrt(weights[t].sum() + 3) for t in there.T
    ]
    assert relevance(words, targets, weights) == pytest.approx(np.array(z) + 0.05)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_it_is_the_ridge_of_scikit_learn(words, targets, power):
    weights = 0.2 + np.random.default_rng(2).random(len(PROMPTS))
    weights[::5] = 0.0
    fit = ridge(words, targets, weights, penalty=0.7, power=power)
    x = dense(words) * words.idf * relevance(words, targets, weights) ** power
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    x /= np.where(norms > 0, norms, 1)
    # scikit-learn centres by the weighted mean, as here.
    expected = Ridge(alpha=0.7).fit(x, targets, sample_weight=weights)
    assert fit.predict(words) == pytest.approx(expected.predict(x), abs=1e-4)
    served = fit.weights(words).predict(count(PROMPTS, CONFIG, Window()))
    assert served == pytest.approx(fit.predict(words), abs=1e-4)


def test_a_start_changes_the_way_and_not_the_end(words, targets):
    weights = np.ones(len(PROMPTS))
    one = ridge(words, targets, weights, penalty=1.0, power=1.0)
    two = ridge(words, targets, weights, penalty=1.0, power=1.0, start=one)
    assert two.predict(words) == pytest.approx(one.predict(words), abs=1e-5)


def test_prompts_without_words_get_the_intercept():
    words = Words.of(["", "a b", "a c", ""], CONFIG, Window())
    fit = ridge(words, np.array([0.1, 0.9, 0.8, 0.2]), np.ones(4), penalty=1.0, power=1.0)
    assert fit.predict(words)[[0, 3]] == pytest.approx([fit.intercept] * 2)
