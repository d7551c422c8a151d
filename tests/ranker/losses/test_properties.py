"""What every loss owes: padding is nothing, extremes are finite, bounds are bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ranker.losses.lengths import ListLengths
from tests.ranker.losses.cases import LOSSES, RANKING, WIDTH, random_head, random_lists, tensors

each = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
each_ranking = pytest.mark.parametrize("loss", RANKING.values(), ids=RANKING)


def _with_gradient(loss, head, lengths):
    head = head.clone().requires_grad_()
    value = loss(head, lengths)
    value.backward()
    return value.detach(), head.grad


@each
def test_gradients_are_those_of_finite_differences(loss):
    for seed in range(4):
        lists = random_lists(seed, lists=2, size=5, draws=2)
        head, lengths = random_head(seed, lists), tensors(lists)
        _, gradient = _with_gradient(loss, head, lengths)
        way = random_head(seed + 1, lists)
        rise = (loss(head + 1e-6 * way, lengths) - loss(head - 1e-6 * way, lengths)) / 2e-6
        assert (gradient * way).sum().item() == pytest.approx(rise.item(), rel=1e-5, abs=1e-7)


@each
@pytest.mark.parametrize("junk", [0.0, 1e30, torch.inf, torch.nan])
def test_padding_changes_neither_loss_nor_gradient(loss, junk):
    for seed in range(4):
        lists = random_lists(seed)
        head, lengths = random_head(seed, lists), tensors(lists)
        value, gradient = _with_gradient(loss, head, lengths)

        def wider(part, fill):
            more = torch.full((part.shape[0], 2, *part.shape[2:]), fill, dtype=part.dtype)
            return torch.cat((part, more), dim=1)

        padded = ListLengths(
            wider(lengths.tokens, junk),
            wider(lengths.censored, True),
            wider(lengths.mask, False),
            wider(lengths.weights, junk),
        )
        padded_value, padded_gradient = _with_gradient(loss, wider(head, junk), padded)
        assert padded_value == pytest.approx(value.item(), rel=1e-12)
        assert torch.allclose(padded_gradient[:, :-2], gradient, rtol=1e-12, atol=1e-15)
        assert not padded_gradient[:, -2:].any()


@each
def test_extremes_are_finite_in_single_precision(loss):
    values = torch.tensor([-1e30, -1.0, 0.0, 1.0, 1e30])
    head = torch.cartesian_prod(values, values)[:, 0].reshape(5, 5, 1).expand(5, 5, WIDTH)
    tokens = torch.tensor([0.0, 1.0, 50.0, 1e9, 1e30]).repeat(5, 1)
    for censored in (torch.zeros(5, 5, dtype=torch.bool), torch.eye(5, dtype=torch.bool)):
        for order in (head, -head, head.flip(1)):
            value, gradient = _with_gradient(loss, order, ListLengths.of(tokens, censored))
            assert torch.isfinite(value)
            assert torch.isfinite(gradient).all()


@each
def test_nothing_known_is_no_loss(loss):
    lists = random_lists(0)
    empty = replace(lists, mask=np.zeros_like(lists.mask))
    value, gradient = _with_gradient(loss, random_head(0, lists), tensors(empty))
    assert value == 0.0
    assert not gradient.any()


@each_ranking
def test_bounds_alone_order_nothing(loss):
    lists = random_lists(1)
    bounds = replace(lists, censored=np.ones_like(lists.censored))
    value, gradient = _with_gradient(loss, random_head(1, lists)[..., 0], tensors(bounds))
    assert value == 0.0
    assert not gradient.any()


@each_ranking
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_the_rows_does_not_matter(loss, seed):
    lists = random_lists(seed, lists=1)
    scores = random_head(seed, lists)[..., 0]
    turn = np.random.default_rng(seed).permutation(scores.shape[1])
    turned = type(lists)(
        lists.tokens[:, turn], lists.censored[:, turn], lists.mask[:, turn], lists.weights[:, turn]
    )
    assert loss(scores, tensors(lists)).item() == pytest.approx(
        loss(scores[:, turn], tensors(turned)).item(), rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("name", ["ranknet", "margin", "listmle"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), more=st.floats(0.0, 1e6))
def test_a_bound_above_everything_may_be_anything_above(name, seed, more):
    """Nothing but the order is learnt of it, whatever the length would have been."""
    lists = random_lists(seed, lists=1, draws=1)
    censored = np.zeros_like(lists.censored)
    censored[0, 0, 0] = True
    high = lists.tokens.copy()
    high[0, 0, 0] = 1000.0
    higher = high.copy()
    higher[0, 0, 0] += more
    scores = random_head(seed, lists)[..., 0]
    low_loss, high_loss = (
        RANKING[name](scores, tensors(replace(lists, tokens=tokens, censored=censored))).item()
        for tokens in (high, higher)
    )
    assert high_loss == pytest.approx(low_loss, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", ["ranknet", "margin", "listmle", "lambdaloss"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_bound_above_everything_teaches_what_such_a_length_would(name, seed):
    lists = random_lists(seed, lists=1, draws=1)
    tokens = lists.tokens.copy()
    tokens[0, 0, 0] = 1000.0
    known = np.zeros_like(lists.censored)
    bound = known.copy()
    bound[0, 0, 0] = True
    scores = random_head(seed, lists)[..., 0]
    told, cut = (
        RANKING[name](scores, tensors(replace(lists, tokens=tokens, censored=censored))).item()
        for censored in (known, bound)
    )
    assert cut == pytest.approx(told, rel=1e-12, abs=1e-15)


@each_ranking
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_bound_below_everything_decides_nothing(loss, seed):
    """Its score may be anything without a change, as long as it claims no place below others."""
    lists = random_lists(seed, lists=1, draws=1)
    tokens = lists.tokens + 1.0
    tokens[0, 0, 0] = 0.0
    censored = np.zeros_like(lists.censored)
    censored[0, 0, 0] = True
    lengths = tensors(replace(lists, tokens=tokens, censored=censored))
    scores = random_head(seed, lists)[..., 0]
    scores[0, 0] = 50.0
    _, gradient = _with_gradient(loss, scores, lengths)
    assert gradient[0, 0] == 0.0


def test_shapes_that_do_not_fit_are_named():
    tokens = torch.ones(1, 3)
    with pytest.raises(ValueError, match=r"lengths: tokens, censored and mask must share"):
        ListLengths.of(tokens, censored=torch.zeros(1, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"lengths\.weights must have shape \(1, 3\)"):
        ListLengths.of(tokens, weights=torch.ones(3))
