"""Student's t against SciPy, far into both tails."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from ranker.losses.student_t import log_density, log_survival

POINTS = np.r_[-1e30, -1e8, -50.0, np.linspace(-6.0, 6.0, 481), 50.0, 1e4, 1e8, 1e30]


@pytest.mark.parametrize("nu", [1.0, 3.5, 30.0])
def test_survival_and_density(nu):
    t = torch.tensor(POINTS)
    # SciPy's own logarithm underflows in the farthest tails of thin ones.
    within = np.isfinite(stats.t.logsf(POINTS, nu))
    expected = stats.t.logsf(POINTS, nu)
    np.testing.assert_allclose(log_survival(t, nu).numpy()[within], expected[within], rtol=1e-12)
    assert torch.isfinite(log_survival(t, nu)).all()
    moderate = np.abs(POINTS) < 1e9
    np.testing.assert_allclose(
        log_density(t, nu).numpy()[moderate], stats.t.logpdf(POINTS, nu)[moderate], rtol=1e-10
    )


def test_gradient():
    t = torch.linspace(-8.0, 8.0, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: log_survival(x, 3.5), t)
    assert torch.autograd.gradcheck(lambda x: log_density(x, 3.5), t)


def test_single_precision_tails_have_finite_gradients():
    t = torch.tensor([-1e30, -1e10, 0.0, 1e10, 1e30], requires_grad=True)
    (log_survival(t, 3.5).sum() + log_density(t, 3.5).sum()).backward()
    assert torch.isfinite(t.grad).all()
    # Far out the survival falls as a power: the slope is -nu / t.
    u = torch.tensor([1e10], requires_grad=True)
    log_survival(u, 3.5).sum().backward()
    assert u.grad.item() == pytest.approx(-3.5e-10, rel=1e-5)
