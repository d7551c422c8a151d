"""Top-k and top-p: drawing from the likeliest tokens of each row, without sorting a vocabulary.

The nucleus of top-p is the smallest set of likeliest tokens whose mass reaches ``top_p`` of what
top-k left; of equally likely ones the lower id comes first. On a GPU rows are sorted: that is fast
there, and choosing sizes by what a row holds would wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from engine.placed import placed
from engine.ranking import above, largest
from engine.spans import row_sums

#: Bounds on the weight of tokens in a nucleus, as shares of all weight, that are tried first: at
#: most 1,024 tokens reach the first one.
_SHARES = (2.0**-10, 2.0**-14)


def draw_filtered(
    weights: torch.Tensor, top_k: Sequence[int], top_p: Sequence[float], uniform: torch.Tensor
) -> torch.Tensor:
    """One token per row of ``weights``, float32 ``[B, vocabulary]``, int64 ``[B]``.

    ``weights`` as :func:`engine.sampler_draw.inverse_transform` takes them; ``top_k`` 0 and
    ``top_p`` 1 leave all. A row that holds a NaN gives any token.
    """
    sums = row_sums(weights)
    if weights.device.type == "cpu":
        rows = zip(weights.numpy(), sums.tolist(), top_k, top_p, uniform.tolist(), strict=True)
        return torch.tensor([_draw(*row) for row in rows])
    return _draw_sorted(weights, sums, top_k, top_p, uniform)


def _draw(row: np.ndarray, total: float, top_k: int, top_p: float, uniform: float) -> int:
    values, places = largest(row, top_k) if top_k else _reaching(row, total, top_p)
    if not len(places):
        return 0
    ends = values.cumsum(dtype=np.float64)
    if top_p < 1.0:
        # A token stays when the mass before it is short of the nucleus; the first always does.
        ends = ends[: 1 + np.searchsorted(ends, top_p * (ends[-1] if top_k else total))]
    place = np.searchsorted(ends, uniform * ends[-1], side="right")
    # Rounding can put the target at the end, and tokens of weight 0 stand there.
    return int(places[min(place, np.searchsorted(ends, ends[-1]))])


def _reaching(row: np.ndarray, total: float, top_p: float) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest tokens with at least ``top_p`` of ``total``, and perhaps more."""
    # Tokens below (1 - p) / size of all weigh less than 1 - p together: the nucleus is above.
    sure = (1.0 - top_p) / len(row) * 0.999
    for share in (*_SHARES, sure):
        values, places = above(row, max(share, sure) * total)
        if values.sum(dtype=np.float64) >= top_p * total * (1.0 + 1e-9):
            break
    return values, places


def _draw_sorted(
    weights: torch.Tensor,
    sums: torch.Tensor,
    top_k: Sequence[int],
    top_p: Sequence[float],
    uniform: torch.Tensor,
) -> torch.Tensor:
    """The same for all rows at once."""
    device, size = weights.device, weights.shape[-1]
    keep = placed([min(k or size, size) for k in top_k], device)
    mass = placed(top_p, device, torch.float64)
    values, places = weights.sort(dim=-1, descending=True, stable=True)
    kept = values.double() * (torch.arange(size, device=device) < keep[:, None])
    ends = kept.cumsum(-1)
    reached = mass * torch.where(keep < size, ends[:, -1], sums)
    stays = (ends - kept < reached[:, None]) | (mass >= 1.0)[:, None]
    ends = (kept * stays).cumsum(-1)
    place = torch.searchsorted(ends, (uniform * ends[:, -1])[:, None], right=True)
    last = torch.searchsorted(ends, ends[:, -1:].contiguous())
    return places.gather(-1, torch.minimum(place, last)).squeeze(-1)
