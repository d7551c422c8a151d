"""The largest numbers of a long row, largest first, without sorting the row.

Equal numbers stand in the order of the row. For rows in the CPU's memory, where a full sort of a
vocabulary costs more than a step of a small model.
"""

from __future__ import annotations

import numpy as np

#: float32 ``[n]`` and their places in the row, int64 ``[n]``.
Ranked = tuple[np.ndarray, np.ndarray]


def largest(row: np.ndarray, count: int) -> Ranked:
    """The ``count`` largest numbers of ``row``, float32 and not NaN."""
    if count < len(row):
        values, places = above(row, float(np.partition(row, -count)[-count]))
    else:
        values, places = above(row, -np.inf)
    return values[:count], places[:count]


def above(row: np.ndarray, least: float) -> Ranked:
    """The numbers of ``row``, float32, that are at least ``least``."""
    places = np.flatnonzero(row >= np.float32(least))
    return _read(np.sort(_keys(row[places], places)))


def _keys(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Numbers and their places as int64, of which the largest number is the smallest.

    Whole numbers sort ten times faster than pairs: NumPy uses vector instructions for them.
    """
    bits = values.view(np.int32)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # the bits of negative numbers run backwards
    keys: np.ndarray = (~ordered).astype(np.int64) << 32 | places
    return keys


def _read(keys: np.ndarray) -> Ranked:
    ordered = ~(keys >> 32).astype(np.int32)
    bits = ordered ^ ((ordered >> 31) & 0x7FFFFFFF)
    return bits.view(np.float32), keys & 0xFFFFFFFF
