from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift.detectors.pair_window import PairWindow
from drift.tau import kendall_tau

ROWS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans(), st.booleans()),
    min_size=1,
    max_size=60,
)


@settings(deadline=None, max_examples=60)
@given(ROWS, st.integers(2, 12))
def test_it_is_the_tau_of_what_is_in_the_window(rows, size):
    window, kept = PairWindow(size), []
    for score, tokens, censored, drop in rows:
        window.update(score, tokens, censored)
        kept = [*kept, (score, tokens, censored)][-size:]
        if drop and len(kept) > 1:
            window.drop()
            kept = kept[1:]
        want = kendall_tau(
            np.array([k[0] for k in kept], float),
            np.array([k[1] for k in kept]),
            np.array([k[2] for k in kept]),
        )
        got = window.tau()
        assert (got.n, got.pairs) == (want.n, want.pairs)
        for name in ("value", "standard_error", "low", "high"):
            assert getattr(got, name) == pytest.approx(getattr(want, name), abs=1e-9, nan_ok=True)


def test_streams_in_step_do_not_mix():
    rng = np.random.default_rng(1)
    scores, tokens = rng.normal(size=(80, 3)), rng.integers(1, 50, (80, 3))
    censored = rng.random((80, 3)) < 0.2
    together = PairWindow(25, 3)
    apart = [PairWindow(25) for _ in range(3)]
    for t in range(80):
        together.update(scores[t], tokens[t], censored[t])
        for k, one in enumerate(apart):
            one.update(float(scores[t, k]), int(tokens[t, k]), bool(censored[t, k]))
    np.testing.assert_allclose(together.taus().value, [one.tau().value for one in apart])


def test_an_empty_window_knows_nothing_and_can_start_again():
    window = PairWindow(5)
    assert not window.tau().defined
    with pytest.raises(ValueError, match="empty"):
        window.drop()
    for i in range(7):
        window.update(i, i + 1, False)
    assert window.tau().value == 1.0
    window.reset()
    assert (window.n, window.tau().defined) == (0, False)
    with pytest.raises(ValueError, match="window"):
        PairWindow(1)
