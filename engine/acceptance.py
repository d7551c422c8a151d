"""How many drafted tokens the model would have written itself, drawn for simulation."""

from __future__ import annotations

import random


class Acceptance:
    """Each draft is kept with probability ``rate`` until the first that is not (Leviathan et al.
    2023, arXiv 2211.17192: accepted drafts are independent there, too). Seeded.

    Raises ``ValueError`` when ``rate`` is outside [0, 1].
    """

    def __init__(self, rate: float, seed: int = 0) -> None:
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"acceptance rate must lie in [0, 1], got {rate}")
        self.rate = rate
        self._random = random.Random(seed)

    def draw(self, drafts: int) -> int:
        """Of ``drafts`` tokens, how many are kept."""
        kept = 0
        while kept < drafts and self._random.random() < self.rate:
            kept += 1
        return kept
