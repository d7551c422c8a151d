from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import shrunk_covariance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ranker.features import extract
from ranker.ngrams import NgramConfig
from ranker.novelty import Novelty, NoveltyConfig, fit
from ranker.novelty.outline import outline
from ranker.prediction import Prediction
from ranker.window import Window

WINDOW = Window()
NOTHING = Prediction(np.empty(0))
WORDS = (
    "write",
    "tell",
    "me",
    "a",
    "story",
    "about",
    "the",
    "river",
    "and",
    "small",
    "town",
    "trade",
)
ODD = [
    "",
    "\x00",
    "\ud800",
    "مرحبا",
    "🦆" * 3000,
    "x" * 1_000_000,
    " \n" * 5000,
    "def f(x): return {x: [1];}" * 9,
]


def chat(rows: int, seed: int) -> list[str]:
    """As people type: no capital, no mark at the end."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(3, 20))) for _ in range(rows)]


def edited(rows: int, seed: int) -> list[str]:
    """The same words as an editor leaves them."""
    return [text.capitalize() + "." for text in chat(rows, seed)]


def fitted(references: list[str], own=chat, rows: int = 300, **config: float) -> Novelty:
    settings = NoveltyConfig(**config)
    parts = {"references": references, "window": WINDOW, "seed": 0}
    return fit(own(rows, 1), own(rows, 2), settings, **parts)


@pytest.fixture(scope="module")
def contrasted() -> Novelty:
    return fitted(edited(200, 3))


@pytest.fixture(scope="module", params=["distance", "contrast"])
def either(request, contrasted) -> Novelty:
    return contrasted if request.param == "contrast" else fitted([])


def test_it_is_a_percentile_among_traffic_like_the_training(either):
    found = either.of(chat(1000, 4), NOTHING)
    assert np.all((found >= 0) & (found <= 1))
    assert np.mean(found) == pytest.approx(0.5, abs=0.05)
    assert np.mean(found >= 0.95) == pytest.approx(0.05, abs=0.04)


def test_strange_text_is_new_whatever_the_references(either):
    strange = ["SELECT a, b FROM t WHERE x = 3;\n" * 5, "Напишите рассказ о реке", "12 + 7 = ?"]
    assert np.all(either.of(strange, NOTHING) >= 0.95)
    assert either.of([], NOTHING).shape == (0,)


def test_what_is_written_like_the_references_is_new_though_it_is_about_the_same(contrasted):
    usual, other = contrasted.of(chat(300, 4), NOTHING), contrasted.of(edited(300, 5), NOTHING)
    assert roc_auc_score(np.repeat([0, 1], 300), np.concatenate([usual, other])) > 0.95


def test_references_that_are_like_the_own_traffic_count_for_little_or_nothing():
    """A coin's toss is judged a little away from .5, so that a tenth of the alarms may remain."""
    novelty = fitted(chat(400, 3))
    assert novelty.contrast is None or novelty.contrast.weight < 0.25
    strange = ["SELECT a, b FROM t WHERE x = 3;\n" * 5, "Напишите рассказ о реке"]
    assert np.all(novelty.of(strange, NOTHING) >= 0.95)


def test_few_references_are_none():
    assert fitted(edited(99, 3)).contrast is None


def test_the_distance_is_that_of_mahalanobis():
    novelty = fitted([], shrinkage=0.3)
    (found,) = novelty.views(asked := edited(30, 4))

    def logs(texts: list[str]) -> np.ndarray:
        table = extract(texts, WINDOW).astype(float)
        return np.sign(table) * np.log1p(np.abs(table))

    known = logs(chat(300, 1))
    spread = known.std(axis=0) + 1e-3
    x, z = ((rows - known.mean(axis=0)) / spread for rows in (logs(asked), known))
    precision = np.linalg.inv(shrunk_covariance(np.cov(z.T), shrinkage=0.3))
    assert found == pytest.approx(np.sum(x @ precision * x, axis=1), rel=1e-5)


def test_the_contrast_is_a_logistic_regression_on_outlines():
    own, references = chat(300, 1), edited(150, 3)
    novelty = fitted(references, outlines=NgramConfig(1, 20, 0), penalty=0.5)
    _, found = novelty.views(asked := [*edited(20, 4), *chat(20, 5)])

    pieces = sorted({piece for text in own + references for piece in outline(text)})

    def frequencies(texts: list[str]) -> np.ndarray:
        counts = np.array([[outline(t).count(piece) for piece in pieces] for t in texts])
        return np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0.0)

    known = frequencies(own + references)
    seen = (known > 0).sum(axis=0)
    idf = np.where(seen >= 2, np.log((1 + len(known)) / (1 + seen)) + 1, 0.0)

    def rows(table: np.ndarray) -> np.ndarray:
        return table * idf / np.linalg.norm(table * idf, axis=1, keepdims=True)

    labels = np.repeat([0, 1], [300, 150])
    judge = LogisticRegression(C=2.0, class_weight="balanced", solver="liblinear")
    expected = judge.fit(rows(known), labels).decision_function(rows(frequencies(asked)))
    assert found == pytest.approx(expected, abs=1e-3)


def test_the_larger_view_decides_within_its_share_of_the_alarms():
    novelty = fitted(edited(200, 3), distance_share=0.2)
    held, texts = chat(300, 2), [*chat(150, 4), *edited(20, 5)]

    def percentiles(known: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.array([np.mean(known < v) + 0.5 * np.mean(known == v) for v in values])

    views = list(zip(novelty.views(held), novelty.views(texts), (0.2, 0.8), strict=True))
    away = np.min([(1 - percentiles(known, seen)) / w for known, seen, w in views], axis=0)
    usual = np.min([(1 - percentiles(known, known)) / w for known, _, w in views], axis=0)
    expected = percentiles(np.round(-usual, 9), np.round(-away, 9))
    assert novelty.of(texts, NOTHING) == pytest.approx(expected, abs=0.02)  # ties, to rounding


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Name 12 rivers.", "< Xx 99 x . >"),
        ("the USA, isn't it?", "< the X , x it ? >"),
        ("What is IT\n\n 123456", "< ^what is ^it \n\n 9999 >"),
        ("naïve 東京 _x_", "< x w w w >"),
        ("", "< >"),
    ],
)
def test_an_outline_keeps_how_a_text_is_written_and_drops_what_it_is_about(text, pieces):
    assert outline(text) == pieces.split(" ")


@given(st.text(max_size=60))
def test_an_outline_holds_no_word_but_function_words(text):
    """The outline of its pieces one by one is what they are: nothing more is hidden in them."""
    for piece in outline(text)[1:-1]:
        low = piece.removeprefix("^")
        plain = len(piece) == 1 or piece in {"Xx", "\n\n"} or set(piece) == {"9"}
        assert plain or outline(low)[1:-1] == [low]


def test_it_comes_back_from_its_arrays_and_numbers(either):
    novelty = either
    again = Novelty.restore(novelty.arrays(), novelty.numbers())
    texts = [*ODD, *edited(20, 6), *chat(20, 7)]
    assert np.array_equal(again.of(texts, NOTHING), novelty.of(texts, NOTHING))
    alone = [novelty.of([text], NOTHING)[0] for text in texts]
    assert np.array_equal(novelty.of(texts, NOTHING), alone)  # whatever else is in the batch


def test_same_prompts_same_measure(contrasted):
    one, two = contrasted.arrays(), fitted(edited(200, 3)).arrays()
    assert all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("spread", np.zeros_like),
        ("precision", lambda array: array[0]),
        ("centre", lambda array: np.full_like(array, np.nan)),
        ("references", lambda array: array[:1]),
        ("combined", lambda array: array[1:]),
        ("combined", lambda array: array[:0]),
        ("buckets", lambda array: array[::-1]),
        ("buckets", lambda array: array + 65536),
        ("buckets", lambda array: array.astype(np.float32)),
        ("idf", lambda array: array[1:]),
        ("coefficients", lambda array: np.full_like(array, np.inf)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, changed, contrasted):
    arrays = contrasted.arrays()
    with pytest.raises(ValueError, match=r"buckets|must"):
        Novelty.restore(arrays | {name: changed(arrays[name])}, contrasted.numbers())


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("features",), ["a"], "other text features"),
        (("distance_share",), 0.0, "distance_share"),
        (("contrast", "weight"), 0.0, "weight"),
        (("contrast", "intercept"), float("nan"), "intercept"),
        (("contrast", "outlines"), {"orders": 9, "bits": 16, "opening": 0}, "orders"),
        (("window",), {"head": 0, "tail": 0}, "head"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(path, value, why, contrasted):
    numbers = contrasted.numbers()
    inner = numbers
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(ValueError, match=why):
        Novelty.restore(contrasted.arrays(), numbers)


def test_a_measure_of_an_earlier_version_is_refused_with_what_to_do(contrasted):
    arrays = contrasted.arrays() | {"prototypes": np.empty((0, 0))}
    with pytest.raises(ValueError, match="train the ranker again"):
        Novelty.restore(arrays, contrasted.numbers())


def test_what_cannot_be_told_is_said():
    with pytest.raises(ValueError, match="19 training and 19 validation prompts are too few"):
        fitted([], rows=19)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shrinkage", 0.0),
        ("penalty", 0.0),
        ("most_rows", 99),
        ("clear", 0.5),
        ("distance_share", 0),
    ],
)
def test_settings_without_a_meaning_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"novelty\.{name}"):
        NoveltyConfig(**{name: value})
