from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from scipy.stats import spearmanr

torch = pytest.importorskip("torch")
from training.encoder.served_form import lost, milliseconds  # noqa: E402

PROMPTS = ["a", "write b", "list of the capitals", "zz top", "how much is it", "", "b c d e f g h"]


def test_what_is_lost_is_measured_against_torch(network, encoder):
    found = lost(encoder, network, PROMPTS * 3)
    exact = []
    for ids in encoder.text.ids(PROMPTS):
        row = torch.tensor([ids])
        with torch.no_grad():
            exact.append(float(network.eval()(row, torch.ones_like(row), torch.zeros(1).long())[0]))
    served = encoder.predict(PROMPTS).scores
    assert found["spearman"] == pytest.approx(spearmanr(exact, served).statistic, abs=1e-3)
    assert found["largest"] == pytest.approx(np.abs(exact - served).max() / np.std(exact), rel=1e-3)
    assert 0.8 < found["kendall"] <= 1.0


def test_scores_all_alike_tell_nothing(network, encoder):
    assert np.isnan(lost(encoder, network, ["a", "a"])["kendall"])


def test_each_run_is_timed_apart(encoder):
    ticks = count()
    assert milliseconds(encoder, 8, 3, lambda: next(ticks)).tolist() == [1000.0] * 3
