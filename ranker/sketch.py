"""A few numbers that stand for an embedding: enough to see that what is asked has changed, too few
to tell what was asked.

Random signs as axes keep distances between embeddings roughly (D. Achlioptas, "Database-friendly
random projections: Johnson-Lindenstrauss with binary coins", JCSS 66, 2003). The signs come from
SHA-256, so that they are the same for ever: sketches are stored and compared with later ones.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Numbers in a sketch.
DIMENSIONS = 8


@lru_cache(maxsize=16)
def axes(width: int) -> Floats:
    """Directions of length 1, shape [DIMENSIONS, width], read-only; each entry +-1/sqrt(width).

    Those of a smaller width begin those of a larger one, but for the length. Raises ``ValueError``
    when ``width`` is below 1.
    """
    if width < 1:
        raise ValueError(f"embeddings must have a width of at least 1, got {width}")
    blocks = range(math.ceil(width / 256))
    rows = []
    for axis in range(DIMENSIONS):
        texts = (f"shortfirst sketch, axis {axis}, block {block}" for block in blocks)
        drawn = b"".join(hashlib.sha256(text.encode()).digest() for text in texts)
        bits = np.unpackbits(np.frombuffer(drawn, np.uint8), count=width, bitorder="big")
        rows.append(2.0 * bits - 1.0)
    found = np.array(rows) / math.sqrt(width)
    found.flags.writeable = False
    return found


def sketches(embeddings: Floats) -> list[tuple[float, ...]]:
    """The sketch of each row of ``embeddings`` [n, width], rounded to 32 bits as the wire and the
    store hold it.

    A row's sketch does not depend on its neighbours. Distances between rows are those between
    sketches times sqrt(width / DIMENSIONS), roughly. Empty where it would not be finite: a forecast
    is worth more than what is compared later. Raises ``ValueError`` when the embeddings are no such
    table.
    """
    table = np.asarray(embeddings, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(f"embeddings must have shape [n, width], got {table.shape}")
    directions = axes(table.shape[1])
    # Row by row: a product of matrices may round a row another way in other company.
    exact = np.array([(directions * row).sum(axis=1) for row in table]).reshape(-1, DIMENSIONS)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(np.float32).astype(np.float64)
    return [tuple(row) if all(map(math.isfinite, row)) else () for row in rounded.tolist()]
