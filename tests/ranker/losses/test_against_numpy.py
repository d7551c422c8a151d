"""Each loss equals its plain re-derivation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ranker.calibration import pinball
from ranker.losses.listmle import listmle
from ranker.losses.log_t import log_t
from ranker.losses.ordinal import ordinal
from ranker.losses.pairs import preferences
from ranker.losses.quantile import quantile
from ranker.types import LEVELS
from tests.ranker.losses import reference
from tests.ranker.losses.cases import CUTS, RANKING, random_head, random_lists, tensors

SEEDS = range(12)


@pytest.mark.parametrize("name", RANKING)
def test_ranking_losses(name):
    for seed in SEEDS:
        lists = random_lists(seed)
        scores = random_head(seed, lists)[..., 0]
        expected = getattr(reference, name)(scores.numpy(), lists)
        assert RANKING[name](scores, tensors(lists)).item() == pytest.approx(expected, rel=1e-9)


def test_listmle_on_lengths_in_bins_of_ten():
    for seed in SEEDS:
        lists = random_lists(seed)
        scores = random_head(seed, lists)[..., 0]
        expected = reference.listmle(scores.numpy(), lists, width=10.0)
        assert listmle(scores, tensors(lists), 10.0).item() == pytest.approx(expected, rel=1e-9)


def test_preferences_are_shares_of_decided_pairs_of_draws():
    for seed in SEEDS:
        lists = random_lists(seed)
        for least_gap in (0.0, 0.2):
            target, decided = preferences(tensors(lists), least_gap)
            wanted = {(a, i, j): (t, d) for a, i, j, t, d in reference.pairs(lists, least_gap)}
            for place in np.ndindex(*target.shape):
                assert (target[place].item(), decided[place].item()) == pytest.approx(
                    wanted.get(place, (0.5, 0.0))
                )


def test_ordinal():
    for seed in SEEDS:
        lists = random_lists(seed)
        logits = random_head(seed, lists)[..., :3]
        expected = reference.ordinal(logits.numpy(), lists, list(CUTS))
        found = ordinal(logits, tensors(lists), torch.tensor(CUTS, dtype=torch.float64))
        assert found.item() == pytest.approx(expected, rel=1e-9)


def test_log_t_is_the_likelihood_of_scipy():
    for seed in SEEDS:
        lists = random_lists(seed)
        head = random_head(seed, lists)
        location, scale = head[..., 0], head[..., 1].abs() + 0.1
        expected = reference.log_t(location.numpy(), scale.numpy(), lists)
        assert log_t(location, scale, tensors(lists)).item() == pytest.approx(expected, rel=1e-9)


def test_quantile_is_the_pinball_loss_of_calibration():
    for seed in SEEDS:
        lists = random_lists(seed)
        logs = random_head(seed, lists).abs().sort(dim=-1).values
        row, place, draw = np.nonzero(lists.mask)
        losses = pinball(
            np.expm1(logs.numpy())[row, place],
            lists.tokens[row, place, draw],
            lists.censored[row, place, draw],
            LEVELS,
        )
        expected = np.mean(losses * lists.weights[row, place])
        assert quantile(logs, tensors(lists), LEVELS).item() == pytest.approx(expected, rel=1e-9)


def test_listmle_without_bounds_or_ties_is_the_likelihood_of_the_order():
    scores = torch.tensor([[0.3, -1.0, 2.0]], dtype=torch.float64)
    lists = reference.Lists(
        np.array([[[7.0], [2.0], [90.0]]]),
        np.zeros((1, 3, 1), bool),
        np.ones((1, 3, 1), bool),
        np.ones((1, 3)),
    )
    e = np.exp(-scores[0].numpy())
    likelihood = e[1] / e.sum() * e[0] / (e[0] + e[2])
    assert listmle(scores, tensors(lists)).item() == pytest.approx(-np.log(likelihood) / 3)
