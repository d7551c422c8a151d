"""TIE: a log-t distribution of the length, ordered by its expectation and its tail together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from training.recipes.compare import Floats

if TYPE_CHECKING:
    from torch import Tensor

NU = 3.5
_LEVELS = 400  # of the quadrature over the distribution; a multiple of 10, for the tail of .9
_TAIL = 0.9
_LEAST = 1e-2  # of a scale


@dataclass(frozen=True, slots=True)
class LogT:
    """Outputs are location and scale of ``ln(1 + tokens)``, which follows Student's t (arXiv
    2604.00499, section 3), in standard deviations ``spread`` from the mean ``centre``.

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
        return tokens

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        from torch.nn.functional import softplus

        from ranker.losses.lengths import ListLengths
        from ranker.losses.log_t import log_t

        location = self.centre + self.spread * outputs[:, :1].T
        scale = self.spread * (softplus(outputs[:, 1:].T) + _LEAST)
        return log_t(location, scale, ListLengths.of(targets[None]), NU)

    def scores(self, outputs: Floats) -> Floats:
        from scipy.stats import t

        levels = (np.arange(_LEVELS) + 0.5) / _LEVELS
        scale = np.logaddexp(0.0, outputs[:, 1:]) + _LEAST
        logs = self.centre + self.spread * (outputs[:, :1] + scale * t.ppf(levels, NU))
        # The expectation of a log-t does not exist; as in the paper it is cut at the limit.
        lengths = np.expm1(np.minimum(logs, np.log1p(self.most)))
        tail = lengths[:, round(_TAIL * _LEVELS) :].mean(axis=1)
        found: Floats = lengths.mean(axis=1) + self.beta * tail
        return found
