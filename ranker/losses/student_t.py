"""The logarithm of the survival function of Student's t, with a gradient.

torch has neither the t distribution's function nor the incomplete beta function behind it. With
``x = nu / (nu + t^2)``, ``P(T > t) = I_x(nu/2, 1/2) / 2`` for t > 0; the incomplete beta function
``I`` is a continued fraction (Abramowitz & Stegun 1964, 26.5.8, 26.7.1) that 40 terms bring to
double precision on the side where it converges fast.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

_TERMS = 40


def log_density(t: Tensor, nu: float) -> Tensor:
    """Of Student's t with ``nu`` degrees of freedom; finite for any finite ``t``."""
    norm = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
    # hypot, because the square of 1e30 is infinite in single precision.
    return norm - (nu + 1) * torch.hypot(t / math.sqrt(nu), torch.ones_like(t)).log()


def log_survival(t: Tensor, nu: float) -> Tensor:
    """``log P(T > t)``, in double precision inside, far tails included."""
    value: Tensor = _LogSurvival.apply(t, nu)  # type: ignore[no-untyped-call]
    return value


class _LogSurvival(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: Tensor, nu: float) -> Tensor:
        value = _log_survival(t.double(), nu)
        ctx.save_for_backward(t, value)
        ctx.nu = nu
        return value.to(t.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        t, value = ctx.saved_tensors
        hazard = (log_density(t.double(), ctx.nu) - value).exp()
        return (-grads[0] * hazard).to(t.dtype), None


def _log_survival(t: Tensor, nu: float) -> Tensor:
    a, b = nu / 2, 0.5
    # log x and log(1 - x) without squaring t, so that neither end over- or underflows.
    size = t.abs() / math.sqrt(nu)
    log_x = -2.0 * torch.hypot(size, torch.ones_like(size)).log()
    log_rest = log_x + 2.0 * size.log()
    far = log_x.exp() < (a + 1) / (a + b + 2)  # where the fraction in x converges fast
    log_tail = _log_incomplete_beta(log_x.where(far, -1.0), log_rest.where(far, -1.0), a, b)
    near = _log_incomplete_beta(log_rest.where(~far, -1.0), log_x.where(~far, -1.0), b, a)
    log_both = log_tail.where(far, torch.log1p(-near.exp()))  # log I_x(a, b): both tails
    upper = log_both - math.log(2.0)
    return torch.where(t >= 0, upper, torch.log1p(-upper.exp()))


def _log_incomplete_beta(log_x: Tensor, log_rest: Tensor, a: float, b: float) -> Tensor:
    """``log I_x(a, b)`` from ``log x`` and ``log(1 - x)``, by Lentz's method."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    x = log_x.exp()
    c = torch.ones_like(x)
    d = 1.0 / (1.0 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1.0 / (1.0 + step * d)
            c = 1.0 + step / c
            fraction = fraction * c * d
    return a * log_x + b * log_rest - math.log(a) - log_beta + fraction.log()
