from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from drift.cohorts import measure
from drift.recent import Recent


def test_figures_are_those_of_a_cohort_counted_anew(stream):
    outcomes = stream(260, 0.36, 1, limit=300)
    rng = np.random.default_rng(2)
    outcomes = [
        dataclasses.replace(o, forecast=None) if rng.random() < 0.2 else o for o in outcomes
    ]
    recent = Recent(80)
    for count, outcome in enumerate(outcomes, start=1):
        recent.add(outcome)
        if count % 20:
            continue
        want = measure(outcomes[max(0, count - 80) : count])
        tau = recent.tau()
        assert (len(recent), recent.scored, tau.n) == (want.outcomes, want.scored, want.scored)
        assert tau.value == pytest.approx(want.tau.value, abs=1e-9)
        assert tau.low == pytest.approx(want.tau.low, abs=1e-9)
        assert recent.unscored_share == pytest.approx(want.unscored_share)
        assert recent.censored_share == pytest.approx(want.censored_share)
        assert recent.coverage() == pytest.approx((want.coverage_p50, want.coverage_p90))
    assert recent.outcomes == tuple(outcomes[-80:])
    newest = [o for o in outcomes[-80:] if o.forecast is not None][-30:]
    assert recent.tau_since(30).value == pytest.approx(measure(newest).tau.value)
    assert recent.tau_since(1000) == recent.tau()


def test_an_empty_one_knows_nothing():
    recent = Recent(10)
    assert math.isnan(recent.unscored_share)
    assert math.isnan(recent.censored_share)
    assert all(math.isnan(share) for share in recent.coverage())
    assert not recent.tau().defined
    assert not recent.full
