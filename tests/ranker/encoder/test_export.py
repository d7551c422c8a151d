from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from ranker.encoder.model import INPUTS, OUTPUTS, EncoderModel

pytest.importorskip("onnxscript")
torch = pytest.importorskip("torch")


def said(network, ids, mask, number):
    with torch.no_grad():
        return [
            each.numpy() for each in network.eval()(*map(torch.from_numpy, (ids, mask, number)))
        ]


def served(model, ids, mask, number):
    return model.session().run(OUTPUTS, dict(zip(INPUTS, (ids, mask, number), strict=True)))


def test_fp32_computes_what_torch_does_whatever_the_shape(network, reading, graph):
    model = EncoderModel(graph.SerializeToString(), reading, network.models)
    rng = np.random.default_rng(1)
    for rows, tokens in ((1, 2), (2, 3), (4, 32), (7, 11)):
        ids = rng.integers(4, 50, (rows, tokens))
        mask = (np.arange(tokens) < rng.integers(2, tokens + 1, (rows, 1))).astype(np.int64)
        number = rng.integers(0, 3, rows)
        found, wanted = (f(m, ids, mask, number) for f, m in ((served, model), (said, network)))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_same_network_comes_out_the_same(network, reading, encoder):
    from ranker.encoder.export import export

    assert export(network, reading).network == encoder.network


@pytest.mark.slow
def test_a_network_of_one_served_model_comes_out_for_any_number_of_rows(network, reading):
    from ranker.encoder.export import export
    from ranker.encoder.network import LengthNetwork

    alone = LengthNetwork(network.encoder)  # export compares several shapes with torch
    assert export(alone, reading).predict(["a b", "c"]).scores.shape == (2,)


def test_int8_is_near_and_smaller(network, encoder):
    rng = np.random.default_rng(2)
    ids = rng.integers(4, 50, (1, 20))
    mask, number = np.ones_like(ids), np.array([1])
    found = served(encoder, ids, mask, number)
    wanted = said(network, ids, mask, number)
    for name, a, b in zip(OUTPUTS, found, wanted, strict=True):
        assert np.abs(a - b).max() < 0.05 * max(1.0, np.abs(b).max()), name
    weights = sum(p.numel() * p.element_size() for p in network.parameters())
    assert len(encoder.network) < weights


def test_nothing_of_the_machine_that_exported_it_is_in_the_file(graph, encoder):
    for data in (graph.SerializeToString(), encoder.network):
        assert not any(trace in data for trace in (b".py", b"torch.", b"aten.", b"site-packages"))


def test_a_network_that_came_out_wrong_is_refused(network, reading, graph):
    from ranker.encoder.export import check

    model = EncoderModel(graph.SerializeToString(), reading, network.models)
    check(model, network)
    other = deepcopy(network)
    with torch.no_grad():
        other.heads["linear"].bias += 0.1
    with pytest.raises(ValueError, match="scores of 1 x 2 tokens is off by"):
        check(model, other)
