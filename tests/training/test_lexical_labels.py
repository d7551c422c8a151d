"""What trees learn when ``trees.label`` is the log of the length."""

from __future__ import annotations

import numpy as np
import pytest

from ranker.types import FinishReason
from training import lexical
from training.lexical_config import LexicalConfig, TreeConfig
from training.sources import Example


def grown(monkeypatch, tokens, limit: int | None, label: str = "log_tokens") -> np.ndarray:
    """Labels that trees are given for answers of so many ``tokens``, cut off at ``limit``."""
    given = []

    def grow(table, shares, label, *rest):
        given.append(label)
        return None, ()

    monkeypatch.setattr(lexical, "grow", grow)
    rows = [
        Example(
            f"question {i}",
            int(n) if limit is None else min(int(n), limit),
            FinishReason.STOP if limit is None or n < limit else FinishReason.LENGTH,
            "m",
            str(i),
            "train",
        )
        for i, n in enumerate(tokens)
    ]
    lexical.fit_lexical(rows, LexicalConfig(trees=TreeConfig(label=label)))
    return given[0]


@pytest.fixture(scope="module")
def tokens() -> np.ndarray:
    """Distinct lengths, of which 18 % are 768 or more."""
    rng = np.random.default_rng(0)
    drawn = np.unique(np.ceil(rng.lognormal(5.6, 1.15, 600)))
    return rng.permutation(drawn)


def test_under_a_limit_answers_keep_their_length_and_bounds_are_beyond_it(monkeypatch, tokens):
    label = grown(monkeypatch, tokens, 768)
    cut = tokens >= 768
    assert 0.1 < cut.mean() < 0.3
    assert np.expm1(label[~cut]) == pytest.approx(tokens[~cut])
    assert np.all(label[cut] >= np.log1p(768))


def test_without_a_limit_the_label_is_the_log_length(monkeypatch, tokens):
    assert np.expm1(grown(monkeypatch, tokens, None)) == pytest.approx(tokens)


def test_the_default_label_is_the_share(monkeypatch, tokens):
    assert TreeConfig().label == "share"
    label = grown(monkeypatch, tokens, None, "share")
    assert label[np.argsort(tokens)] == pytest.approx((np.arange(len(tokens)) + 0.5) / len(tokens))
