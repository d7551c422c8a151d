"""What the heads promise, whatever the encoder says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from ranker.encoder.model_number import model_number
from ranker.encoder.network import LengthNetwork
from ranker.types import LEVELS

MARGINAL = torch.linspace(1.0, 7.0, len(LEVELS))


def encoder() -> BertModel:
    config = BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    return BertModel(config, add_pooling_layer=False)


def network(**options) -> LengthNetwork:
    torch.manual_seed(0)
    return LengthNetwork(encoder(), **options).eval()


def ask(net: LengthNetwork, model: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    ids = torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]])
    with torch.no_grad():
        return net(ids, (ids > 0).long(), torch.full((2,), model))


def test_shapes_and_quantiles_that_do_not_cross():
    scores, logs, pooled = ask(network())
    assert (scores.shape, logs.shape, pooled.shape) == ((2,), (2, len(LEVELS)), (2, 32))
    assert (logs.diff(dim=1) > 0).all()


def test_it_begins_with_the_marginal_quantiles():
    net = network(extra={"log_t": 2})
    net.start_at(MARGINAL)
    _, logs, _ = ask(net)
    np.testing.assert_allclose(logs.numpy(), MARGINAL.expand(2, -1).numpy(), rtol=1e-5)


def test_padding_is_not_read():
    net = network()
    short, long = torch.tensor([[2, 7, 3]]), torch.tensor([[2, 7, 3, 0, 0]])
    with torch.no_grad():
        alone = net(short, torch.ones_like(short), torch.zeros(1, dtype=torch.long))
        filled = net(long, (long > 0).long(), torch.zeros(1, dtype=torch.long))
    for one, other in zip(alone, filled, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("head", ["linear", "ordinal", "log_t"])
def test_a_served_model_moves_score_and_quantiles_and_none_does_not(head):
    net = network(models=("a", "b"), extra={"ordinal": 5, "log_t": 2}, score_head=head)
    plain = ask(net)
    torch.testing.assert_close(ask(net, 1), plain)  # nothing learnt yet
    with torch.no_grad():
        for shift in (net.score_shift, net.quantile_shift):
            shift.vectors.weight[1, -1] = 1.0
    moved = ask(net, model_number("a", net.models))
    assert (moved[0] > plain[0]).all()
    torch.testing.assert_close(moved[1], plain[1] + 1.0)
    torch.testing.assert_close(ask(net, model_number("unheard of", net.models)), plain)


def test_the_vector_of_no_model_is_never_trained():
    net = network(models=("a",))
    ids = torch.tensor([[2, 5, 3], [2, 6, 3]])
    scores, logs, _ = net(ids, torch.ones_like(ids), torch.tensor([0, 1]))
    (scores.sum() + logs.sum()).backward()
    gradient = net.score_shift.vectors.weight.grad
    assert not gradient[0].any()
    assert gradient[1].any()


def test_the_ordinal_score_is_the_expected_number_of_cuts_below():
    net = network(extra={"ordinal": 5}, score_head="ordinal")
    with torch.no_grad():
        net.heads["ordinal"].weight.zero_()
        net.heads["ordinal"].bias.copy_(torch.tensor([1e30, 1e30, 0.0, -1e30, -1e30]))
    assert ask(net)[0].tolist() == [2.5, 2.5]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"score_head": "ordinal"}, r"network\.score_head must be one of linear, got 'ordinal'"),
        ({"score_head": "quantiles"}, r"network\.score_head must be one of"),
        ({"models": ("a", "a")}, r"network\.models must differ"),
    ],
)
def test_what_does_not_fit_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        LengthNetwork(encoder(), **options)
