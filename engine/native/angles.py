"""Cosines and sines of all positions, as far as they were needed yet."""

from __future__ import annotations

from typing import Any

import torch

#: Positions that the first table has; later ones are twice as long as the one before.
_FIRST = 1024


class Angles:
    """What ``rotary``, a rotary embedding of transformers, gives for each position.

    Only for those whose angles depend on the position alone, and whose second half of dimensions
    turns with the first.
    """

    def __init__(self, rotary: Any) -> None:
        self._rotary = rotary
        self.cosines, self.sines = self._table(_FIRST)
        #: Dimensions of a head that are turned.
        self.rotary = 2 * self.cosines.shape[1]

    def reach(self, positions: int) -> None:
        """Make both tables at least ``positions`` long."""
        have = len(self.cosines)
        if positions > have:
            self.cosines, self.sines = self._table(max(positions, 2 * have))

    def _table(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        where = torch.arange(positions)[None]
        found = self._rotary(torch.zeros(1, dtype=torch.float32), where)
        cosines, sines = (x[0, :, : x.shape[-1] // 2].float().contiguous() for x in found)
        return cosines, sines
