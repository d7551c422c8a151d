from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranker.features import FEATURES, extract
from ranker.metrics import order
from ranker.ngrams import Counts, NgramConfig, NgramWeights, count, document_frequency_weights
from ranker.types import LEVELS
from ranker.window import Window

WINDOW = Window()
ODD = [
    "",
    " ",
    "\n\n",
    "\ud800",
    "a" * 100_000,
    "1" * 5000,
    "مرحبا",
    "東京の天気は?",
    "🦆" * 3000,
    "\x00",
]


@pytest.mark.parametrize("prompt", ODD)
def test_odd_prompts_get_finite_forecasts(ranker, prompt):
    (forecast,) = ranker.forecast([prompt])
    assert forecast.levels == LEVELS
    assert (forecast.ranker, forecast.version) == ("length-ranker-toy", "unregistered")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=300), max_size=5))
def test_features_are_finite_and_a_row_does_not_depend_on_its_neighbours(prompts):
    table = extract(prompts, WINDOW)
    assert table.shape == (len(prompts), len(FEATURES))
    assert np.all(np.isfinite(table))
    for row, prompt in zip(table, prompts, strict=True):
        assert np.array_equal(row, extract([prompt], WINDOW)[0])


def test_one_by_one_or_together_the_forecast_is_the_same(ranker, examples):
    prompts = [e.prompt for e in examples[:40]] + ODD
    together = ranker.forecast(prompts)
    alone = [ranker.forecast([prompt])[0] for prompt in prompts]
    assert [f.score for f in together] == [f.score for f in alone]
    table, rows = ([f.quantiles for f in found] for found in (together, alone))
    assert np.array(table) == pytest.approx(np.array(rows))
    assert ranker.forecast([]) == []


def test_threads_do_not_disturb_each_other(ranker, examples):
    prompts = [e.prompt for e in examples[:64]]
    expected = ranker.forecast(prompts)
    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(ranker.forecast, [prompts] * 32))


def test_it_orders_prompts_that_it_has_not_seen(ranker, examples):
    held = [e for e in examples if e.split == "test"]
    scores = [f.score for f in ranker.forecast([e.prompt for e in held])]
    assert order(scores, [e.output_tokens for e in held], resamples=0).tau > 0.45


def test_only_the_ends_of_a_long_prompt_are_read():
    window = Window(head=20, tail=10)
    a = "write an essay about" + "x" * 500 + " in french"
    b = "write an essay about" + "y" * 500 + " in french"
    assert np.array_equal(extract([a], window), extract([b], window))
    assert window.cut("short") == "short"
    with pytest.raises(ValueError, match=r"window\.head"):
        Window(head=0)


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


def test_rare_buckets_are_dropped():
    config = NgramConfig(orders=1, bits=20, opening=0)
    idf = document_frequency_weights(count(["one two", "two three"], config, WINDOW), config)
    assert np.count_nonzero(idf) == 1
    assert idf.max() == pytest.approx(1.0)


def test_importing_the_package_and_a_ranker_loads_neither_torch_nor_mlflow():
    code = (
        "import sys, ranker, ranker.lexical, ranker.artifact;"
        "print([m for m in ('torch', 'mlflow', 'transformers', 'lightgbm') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
