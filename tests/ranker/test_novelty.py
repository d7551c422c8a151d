from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import shrunk_covariance
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from ranker.features import extract
from ranker.novelty import Novelty, NoveltyConfig, fit
from ranker.prediction import Prediction
from ranker.window import Window

WINDOW = Window()
RNG = np.random.default_rng(0)
WORDS = ("write", "tell", "me", "a", "story", "about", "the", "river", "and", "small", "town")
ODD = [
    "",
    "\x00",
    "\ud800",
    "مرحبا",
    "🦆" * 3000,
    "x" * 1_000_000,
    "def f(x): return {x: [1];}" * 9,
]


def traffic(rows: int) -> list[str]:
    return [" ".join(RNG.choice(WORDS, RNG.integers(3, 20))) for _ in range(rows)]


def predicted(rows: int, middle: float = 0.0) -> Prediction:
    embeddings = RNG.normal(scale=0.5, size=(rows, 12))  # about three subjects
    embeddings[np.arange(rows), RNG.integers(3, size=rows)] += 4.0
    embeddings[:, 7] += middle
    return Prediction(np.zeros(rows), embeddings=embeddings)


def fitted(rows: int = 200, *, meaning: bool, **config: float) -> Novelty:
    train, held = (predicted(rows) if meaning else Prediction(np.zeros(rows)) for _ in range(2))
    settings = NoveltyConfig(**config)
    return fit(traffic(rows), train, traffic(rows), held, settings, window=WINDOW, seed=0)


@pytest.mark.parametrize("meaning", [False, True])
def test_it_is_a_percentile_among_traffic_like_the_training(meaning):
    found = fitted(meaning=meaning).of(traffic(500), predicted(500))
    assert np.all((found >= 0) & (found <= 1))
    assert np.mean(found) == pytest.approx(0.5, abs=0.06)
    assert np.mean(found >= 0.95) == pytest.approx(0.05, abs=0.04)


def test_strange_text_is_new_to_a_model_without_embeddings():
    novelty = fitted(meaning=False)
    nothing = Prediction(np.empty(0))
    strange = ["SELECT a, b FROM t WHERE x = 3;\n" * 5, "Напишите рассказ о реке", "12 + 7 = ?"]
    assert np.all(novelty.of(strange, nothing) >= 0.95)
    assert novelty.of([], nothing).shape == (0,)


def test_strange_meaning_in_familiar_words_is_seen_in_the_embeddings():
    novelty = fitted(meaning=True)
    usual, moved = (novelty.of(traffic(300), predicted(300, middle)) for middle in (0.0, 6.0))
    labels = np.repeat([0, 1], 300)
    assert roc_auc_score(labels, np.concatenate([usual, moved])) > 0.8


def test_the_views_are_mahalanobis_and_nearest_neighbour_distances():
    train, prompts = predicted(100), traffic(100)
    config = NoveltyConfig(shrinkage=0.3, nearest=4, prototypes=100)
    novelty = fit(prompts, train, traffic(50), predicted(50), config, window=WINDOW, seed=0)
    asked, said = traffic(30), predicted(30)
    shape, meaning = novelty._views(asked, said)

    def logs(texts: list[str]) -> np.ndarray:
        table = extract(texts, WINDOW).astype(float)
        return np.sign(table) * np.log1p(np.abs(table))

    known = logs(prompts)
    spread = known.std(axis=0) + 1e-3
    x = (logs(asked) - known.mean(axis=0)) / spread
    z = (known - known.mean(axis=0)) / spread
    precision = np.linalg.inv(shrunk_covariance(np.cov(z.T), shrinkage=0.3))
    assert shape == pytest.approx(np.sum(x @ precision * x, axis=1), rel=1e-5)

    def unit(e: np.ndarray) -> np.ndarray:
        e = e - train.embeddings.mean(axis=0)
        return e / np.linalg.norm(e, axis=1, keepdims=True)

    neighbours = NearestNeighbors(n_neighbors=4).fit(unit(train.embeddings))
    distances, _ = neighbours.kneighbors(unit(said.embeddings))
    assert meaning == pytest.approx((distances**2).mean(axis=1), abs=5e-3)  # kept in half precision


@pytest.mark.parametrize("meaning", [False, True])
def test_it_comes_back_from_its_arrays_and_numbers(meaning):
    novelty = fitted(meaning=meaning)
    again = Novelty.restore(novelty.arrays(), novelty.numbers())
    said = predicted(len(ODD))
    assert np.array_equal(again.of(ODD, said), novelty.of(ODD, said))
    alone = [
        novelty.of([p], Prediction(np.zeros(1), embeddings=said.embeddings[i : i + 1]))[0]
        for i, p in enumerate(ODD)
    ]
    assert novelty.of(ODD, said) == pytest.approx(alone)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("spread", np.zeros),
        ("precision", lambda shape: np.zeros(shape[0])),
        ("centre", lambda shape: np.full(shape, np.nan)),
        ("references", lambda shape: np.zeros((3, *shape[1:]))),
    ],
)
def test_parts_that_do_not_fit_are_refused(name, changed):
    novelty = fitted(meaning=True)
    arrays = novelty.arrays()
    with pytest.raises(ValueError, match=name):
        Novelty.restore(arrays | {name: changed(arrays[name].shape)}, novelty.numbers())
    with pytest.raises(ValueError, match="nearest"):
        Novelty.restore(arrays, novelty.numbers() | {"nearest": 0})
    with pytest.raises(ValueError, match="other text features"):
        Novelty.restore(arrays, novelty.numbers() | {"features": ["a"]})


def test_what_cannot_be_told_is_said():
    with pytest.raises(ValueError, match="19 training and 19 validation prompts are too few"):
        fitted(19, meaning=False)
    with pytest.raises(ValueError, match="the model gives none"):
        fitted(meaning=True).of(["a"], Prediction(np.zeros(1)))
    with pytest.raises(ValueError, match=r"novelty\.shrinkage"):
        NoveltyConfig(shrinkage=0.0)
    with pytest.raises(ValueError, match=r"novelty\.nearest"):
        NoveltyConfig(nearest=0)
