from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ranker.metrics import order
from ranker.types import LEVELS

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
    "\x00".join(["fix", "this"]),
    "def f(x):\n    return {x: [i for i in range(10)]};\n" * 200,
    "e\u0301\u200d\u202e\ufeff",
    "9" * 7 + " words",
    "²³ sentences",
    "word " * 200_000,
]


@pytest.mark.parametrize("prompt", ODD)
def test_odd_prompts_get_finite_forecasts(ranker, prompt):
    (forecast,) = ranker.forecast([prompt])
    assert forecast.levels == LEVELS
    assert (forecast.ranker, forecast.version) == ("length-ranker-toy", "unregistered")


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


def test_importing_the_package_and_a_ranker_loads_neither_torch_nor_mlflow():
    code = (
        "import sys, ranker, ranker.lexical, ranker.artifact;"
        "print([m for m in ('torch', 'mlflow', 'transformers', 'lightgbm') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
