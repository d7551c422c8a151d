"""Which tokens a generation has used and how often, as arrays that a sampler can gather by."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


class Usage:
    """Distinct tokens of prompt and output, and how often each is in the output."""

    def __init__(self, prompt_ids: Iterable[int]) -> None:
        distinct = list(dict.fromkeys(prompt_ids))
        self._slot = {token: slot for slot, token in enumerate(distinct)}
        self._ids = np.array(distinct, dtype=np.int64)
        self._counts = np.zeros(len(distinct), dtype=np.float32)

    def append(self, token: int) -> None:
        """``token`` was put out once more."""
        slot = self._slot.setdefault(token, len(self._slot))
        if slot == len(self._ids):
            room = max(64, slot)
            self._ids = np.concatenate([self._ids, np.zeros(room, np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros(room, np.float32)])
        self._ids[slot] = token
        self._counts[slot] += 1

    @property
    def ids(self) -> np.ndarray:
        """int64 ``[n]``; valid until the next :meth:`append`."""
        return self._ids[: len(self._slot)]

    @property
    def counts(self) -> np.ndarray:
        """In the output, float32 ``[n]``: 0 for tokens that only the prompt has."""
        return self._counts[: len(self._slot)]
