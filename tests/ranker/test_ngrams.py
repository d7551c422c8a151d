from __future__ import annotations

import numpy as np
import pytest

from ranker.ngrams import Counts, NgramConfig, NgramWeights, count
from ranker.window import Window

WINDOW = Window()


def test_ngram_counts_are_counts_of_word_runs():
    config = NgramConfig(orders=2, bits=20, opening=0)
    counts = count(["a b a b", "", "a"], config, WINDOW)
    # a, b, "a b", "b a": two, two, two and one.
    assert sorted(counts.counts[: counts.starts[1]]) == [1, 2, 2, 2]
    assert np.diff(counts.starts).tolist() == [4, 0, 1]
    assert counts.buckets[counts.starts[2]] in counts.buckets[: counts.starts[1]]


def test_case_and_spacing_of_words_do_not_matter_but_their_order_does():
    config = NgramConfig()
    one, two, three = (
        count([text], config, WINDOW) for text in ("Tell  ME\nmore", "tell me more", "more me tell")
    )
    assert np.array_equal(one.buckets, two.buckets)
    assert not np.array_equal(one.buckets, three.buckets)


def test_linear_prediction_is_the_dot_product_with_a_unit_vector():
    counts = Counts(np.array([0, 2, 2]), np.array([3, 7]), np.array([1.0, 4.0]))
    idf = np.zeros(16, np.float32)
    coefficients = np.zeros(16, np.float32)
    idf[[3, 7]], coefficients[[3, 7]] = (2.0, 1.5), (0.5, -1.0)
    found = NgramWeights(idf, coefficients, 0.25).predict(counts)
    x = np.array([2.0, (1 + np.log(4)) * 1.5])
    assert found == pytest.approx([x @ [0.5, -1.0] / np.linalg.norm(x) + 0.25, 0.25])
