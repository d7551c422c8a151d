from __future__ import annotations

import numpy as np
import pytest

from ranker.types import FinishReason
from training.lists import rank_shares
from training.sources import Example
from training.targets import Targets, gather


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
