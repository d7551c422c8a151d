"""Numbers read off a prompt: its size, shape and the words that ask for more or for less."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranker.features import requested, script, shape, vocabulary
from ranker.features.reading import Reading
from ranker.window import Window

_GROUPS = (shape, requested, vocabulary, script)
#: Columns of :func:`extract`, in order. A saved ranker names them, so that an old one is refused
#: rather than fed the wrong numbers.
FEATURES: tuple[str, ...] = tuple(name for group in _GROUPS for name in group.NAMES)


def extract(prompts: Sequence[str], window: Window) -> NDArray[np.float32]:
    """Features of each prompt, shape ``[len(prompts), len(FEATURES)]``. Reads ``window`` of it."""
    table = np.empty((len(prompts), len(FEATURES)), dtype=np.float32)
    for row, prompt in enumerate(prompts):
        reading = Reading.of(prompt, window)
        table[row] = [number for group in _GROUPS for number in group.measure(reading)]
    return table
