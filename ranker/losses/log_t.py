"""Log-t: the logarithm of a length follows Student's t around what the prompt suggests.

TIE (arXiv 2604.00499) fits it with 3.5 degrees of freedom: tails heavier than the log-normal's,
as answers have.
"""

from __future__ import annotations

from torch import Tensor

from ranker.losses.lengths import ListLengths
from ranker.losses.student_t import log_density, log_survival

NU = 3.5


def log_t(location: Tensor, scale: Tensor, lengths: ListLengths, nu: float = NU) -> Tensor:
    """Negative log likelihood in nats, averaged over draws and prompts.

    ``location`` and ``scale`` (positive) of ``log(1 + tokens)`` are ``[lists, size]``. A censored
    draw adds the chance of being longer than its bound.
    """
    location = lengths.kept(location)[..., None]
    scale = lengths.kept(scale - 1.0)[..., None] + 1.0  # 1 in place of padding
    z = (lengths.tokens.log1p().where(lengths.mask, 0.0) - location) / scale
    known = log_density(z, nu) - scale.log()
    losses = -log_survival(z, nu).where(lengths.censored, known)
    weights = lengths.kept(lengths.weights)[..., None]
    return (losses * weights).where(lengths.mask, 0.0).sum() / lengths.mask.sum().clamp(min=1)
