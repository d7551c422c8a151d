"""TIE: a log-t distribution of the length, ordered by its expectation and its tail together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from training.recipes.recipe import Floats

if TYPE_CHECKING:
    from torch import Tensor

NU = 3.5
_LEVELS = 400  # of the quadrature over the distribution; a multiple of 10, for the tail of .9
_TAIL = 0.9


@dataclass(frozen=True, slots=True)
class LogT:
    """``ln(1 + tokens)`` follows Student's t with ``NU`` degrees of freedom (arXiv 2604.00499,
    section 3): outputs are its location and the logarithm of its scale.

    The score is ``E[min(X, most)] + beta * CVaR_.9`` (equation 11); ``beta`` between .1 and .5
    grows with the queue there, and stays at the lower end here, where no queue is.
    """

    width: ClassVar[int] = 2
    centre: float
    spread: float
    most: float
    beta: float = 0.1

    @classmethod
    def of(cls, tokens: Floats, *, beta: float = 0.1) -> LogT:
        logs = np.log1p(tokens)
        return cls(float(logs.mean()), max(float(logs.std()), 1e-9), float(tokens.max()), beta)

    def targets(self, tokens: Floats) -> Floats:
        return (np.log1p(tokens) - self.centre) / self.spread

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # The negative log density, without the constant that only NU enters.
        z = (targets - outputs[:, 0]) * (-outputs[:, 1]).exp()
        return (outputs[:, 1] + (NU + 1.0) / 2.0 * (z * z / NU).log1p()).mean()

    def scores(self, outputs: Floats) -> Floats:
        from scipy.stats import t

        levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
        at = outputs[:, :1] + np.exp(outputs[:, 1:]) * t.ppf(levels, NU)
        # The expectation of a log-t does not exist; as in the paper it is cut at the limit.
        logs = np.minimum(self.centre + self.spread * at, np.log1p(self.most))
        lengths = np.expm1(logs)
        tail = lengths[:, round(_TAIL * _LEVELS) :].mean(axis=1)
        found: Floats = lengths.mean(axis=1) + self.beta * tail
        return found
