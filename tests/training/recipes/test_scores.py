"""What recipes learn from and how they score, against the same thing written in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from training.recipes.benchmark import Benchmark
from training.recipes.buckets import Buckets
from training.recipes.clairvoyant import FEATURES, Clairvoyant, features, parting
from training.recipes.ltr import ListMle
from training.recipes.pars import Margin
from training.recipes.recipe import Setup
from training.recipes.ssjf import Classes, Regression
from training.recipes.tie import NU, LogT

TOKENS = np.array([3.0, 12.0, 40.0, 80.0, 160.0, 320.0, 900.0, 4000.0])
RNG = np.random.default_rng(0)


def loss(objective, outputs, tokens=TOKENS) -> float:
    torch = pytest.importorskip("torch")
    targets = torch.tensor(objective.targets(tokens))
    return float(objective.loss(torch.tensor(outputs), targets))


def log_softmax(outputs):
    return outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True))


def test_regression_is_on_token_counts() -> None:
    outputs = RNG.normal(size=(8, 1))
    z = (TOKENS - TOKENS.mean()) / TOKENS.std()
    assert loss(Regression.of(TOKENS), outputs) == pytest.approx(abs(outputs[:, 0] - z).mean())
    squared = Regression.of(TOKENS, squared=True)
    assert loss(squared, outputs) == pytest.approx(((outputs[:, 0] - z) ** 2).mean())
    assert np.array_equal(squared.scores(outputs), outputs[:, 0])


def test_classes_lie_between_percentiles_and_rare_ones_weigh_more() -> None:
    tokens = np.arange(1.0, 201.0)
    objective = Classes.of(tokens)
    label = objective.targets(tokens).astype(int)
    assert np.bincount(label).tolist() == [50, 50, 50, 48, 2]
    outputs = RNG.normal(size=(200, 5))
    weights = 1.0 / np.bincount(label)[label]
    nll = -log_softmax(outputs)[np.arange(200), label]
    assert loss(objective, outputs, tokens) == pytest.approx((weights * nll).sum() / weights.sum())
    odds = np.exp(log_softmax(outputs))
    assert objective.scores(outputs) == pytest.approx(odds @ np.arange(5))


def test_equal_lengths_still_make_classes() -> None:
    assert Classes.of(np.full(10, 7.0)).width == 2


def test_buckets_are_of_equal_width() -> None:
    ten = Buckets(820)
    assert ten.width == 10
    assert ten.targets(TOKENS).tolist() == [0, 0, 0, 0, 0, 0, 1, 4]
    assert ten.targets(np.array([1e6])).tolist() == [9]
    outputs = RNG.normal(size=(8, 10))
    nll = -log_softmax(outputs)[np.arange(8), ten.targets(TOKENS).astype(int)]
    assert loss(ten, outputs) == pytest.approx(nll.mean())
    assert Buckets(100).width == 82


def test_log_t_is_scipys_density_and_its_score_the_tail_too() -> None:
    objective = LogT.of(TOKENS, beta=0.5)
    outputs = RNG.normal(size=(8, 2)) * 0.5
    logs = np.log1p(TOKENS)
    location = logs.mean() + logs.std() * outputs[:, :1]
    scale = logs.std() * (np.log1p(np.exp(outputs[:, 1:])) + 0.01)
    nll = -t.logpdf(logs, NU, loc=location[:, 0], scale=scale[:, 0])
    assert loss(objective, outputs) == pytest.approx(nll.mean())
    drawn = location + scale * t.rvs(NU, size=(8, 200_000), random_state=1)
    lengths = np.sort(np.minimum(np.expm1(drawn), 4000.0), axis=1)
    expected = lengths.mean(axis=1) + 0.5 * lengths[:, 180_000:].mean(axis=1)
    assert objective.scores(outputs) == pytest.approx(expected, rel=0.02)


def test_ltr_learns_the_order_of_lengths_in_steps_of_ten() -> None:
    tokens = np.array([33.0, 5.0, 1200.0, 38.0])
    scores = RNG.normal(size=(4, 1))
    worth = np.exp(-scores[:, 0])  # shortest first
    stages = [(1, [0, 1, 2, 3]), (0, [0, 2, 3]), (3, [0, 2, 3]), (2, [2])]  # 33 and 38 are equal
    nll = [-np.log(worth[i] / worth[rest].sum()) for i, rest in stages]
    assert loss(ListMle(), scores, tokens) == pytest.approx(np.mean(nll))
    assert np.array_equal(ListMle().scores(scores), scores[:, 0])


def test_pars_leaves_out_pairs_that_are_nearly_equal() -> None:
    tokens = np.array([100.0, 81.0, 79.0, 10.0])
    scores = RNG.normal(size=(4, 1))
    s = scores[:, 0]
    pairs = [(0, 2), (0, 3), (1, 3), (2, 3)]
    hinge = [max(0.0, 1.0 - (s[i] - s[j])) for i, j in pairs]
    assert loss(Margin(), scores, tokens) == pytest.approx(np.mean(hinge))


def test_clairvoyant_reads_nineteen_features() -> None:
    table = features(["Write a LIST in 50 words, and explain recursion?", "", "translate this"])
    assert table.shape == (3, 19) == (3, len(FEATURES))
    first, blank, verb = (dict(zip(FEATURES, row, strict=True)) for row in table)
    assert {name for name, value in first.items() if value} == {
        "prompt_tokens",
        "code_keyword",
        "length_constraint",
        "ends_with_question",
        "format_keyword",
        "clauses",
        "explain",
    }
    assert first["clauses"] == 2
    assert {name for name, value in blank.items() if value} == {"other"}
    assert verb["other"] == 1


def test_clairvoyant_classes_and_order(examples) -> None:
    even = np.array([10.0, 199, 200, 799, 800, 2000])
    assert parting(even, (200, 800)).tolist() == [200, 800]
    assert parting(np.arange(91.0), (200, 800)) == pytest.approx([30, 60])
    train, held = (tuple(e for e in examples if e.split == s) for s in ("train", "validation"))
    benchmark = Benchmark("toy", train, held, ())
    scorer = Clairvoyant(rounds=20).fit(benchmark, Setup())
    prompts = [e.prompt for e in train]
    scores = scorer(prompts, [e.model for e in train])
    assert scores.shape == (len(train),)
    assert np.all((scores >= 0) & (scores <= 1))
    assert np.array_equal(scores, Clairvoyant(rounds=20).fit(benchmark, Setup())(prompts, []))
