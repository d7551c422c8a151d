import numpy as np
import pytest
from scipy.optimize import nnls

from engine.costs import MeasuredStep, fit


def measured(count=300, seed=2, noise=0.02, context=0.0):
    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(count):
        decodes, prefill = int(rng.integers(0, 17)), int(rng.integers(0, 2) * rng.integers(1, 256))
        if decodes + prefill == 0:
            continue
        attended = decodes * int(rng.integers(20, 900))
        seconds = 0.03 + 0.002 * decodes + 0.0007 * prefill + context * attended
        steps.append(MeasuredStep(decodes, prefill, attended, seconds * rng.lognormal(0.0, noise)))
    return steps


def test_finds_the_coefficients():
    found = fit(measured())
    assert found.cost.base == pytest.approx(0.03, rel=0.05)
    assert found.cost.decode == pytest.approx(0.002, rel=0.05)
    assert found.cost.prefill == pytest.approx(0.0007, rel=0.05)
    assert found.cost.context == 0.0
    assert found.r_squared > 0.99
    assert abs(found.total_error) < 0.01


def test_context_term_on_request():
    found = fit(measured(context=2e-6), context=True)
    assert found.cost.context == pytest.approx(2e-6, rel=0.1)


def test_is_non_negative_least_squares():
    rng = np.random.default_rng(7)
    steps = [
        # Time falls with prefill here, so that the constraint binds.
        MeasuredStep(int(d), int(p), 0, max(1e-3, 0.1 + 0.01 * d - 0.0002 * p))
        for d, p in zip(rng.integers(0, 9, 60), rng.integers(1, 300, 60), strict=True)
    ]
    table = np.array([(1.0, s.decodes, s.prefill_tokens) for s in steps])
    expected, _ = nnls(table, np.array([s.seconds for s in steps]))
    cost = fit(steps, trim=0.0).cost
    assert [cost.base, cost.decode, cost.prefill] == pytest.approx(list(expected), abs=1e-9)


def test_one_pause_of_the_machine_does_not_tilt_the_fit():
    steps = measured()
    steps[17] = MeasuredStep(steps[17].decodes, steps[17].prefill_tokens, 0, 30.0)
    assert fit(steps).cost.base == pytest.approx(0.03, rel=0.05)


def test_names_what_is_missing():
    with pytest.raises(ValueError, match="at least 8"):
        fit(measured()[:5])
    with pytest.raises(ValueError, match="0 seconds"):
        fit([MeasuredStep(1, 0, 0, 0.0)] * 9)
    with pytest.raises(ValueError, match="trim"):
        fit(measured(), trim=0.5)
