"""Quantile loss of the distribution head (Koenker & Bassett 1978), in log tokens."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ranker.losses.lengths import ListLengths


def quantile(log_quantiles: Tensor, lengths: ListLengths, levels: Sequence[float]) -> Tensor:
    """Pinball loss averaged over levels, draws and prompts.

    ``log_quantiles`` is ``[lists, size, levels]``, of ``log(1 + tokens)``. A censored draw is
    compared up to its bound, as :func:`ranker.calibration.pinball` does: the quantile of
    ``min(length, limit)`` is ``min(quantile, limit)``.
    """
    forecast = lengths.kept(log_quantiles)[:, :, None, :]
    p = forecast.new_tensor(levels)
    seen = lengths.tokens.log1p()[..., None].to(forecast.dtype)
    forecast = forecast.where(~lengths.censored[..., None], forecast.minimum(seen))
    gap = seen - forecast
    losses = (p * gap).maximum((p - 1.0) * gap).mean(dim=-1)
    weights = lengths.kept(lengths.weights)[:, :, None]
    return (losses * weights).where(lengths.mask, 0.0).sum() / lengths.mask.sum().clamp(min=1)
