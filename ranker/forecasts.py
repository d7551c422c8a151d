"""Scores and quantiles, put together into forecasts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranker.sketch import sketches
from ranker.types import Forecast

Floats = NDArray[np.float64]


def forecasts(
    scores: Floats,
    quantiles: Floats,
    levels: tuple[float, ...],
    name: str,
    version: str,
    novelty: Floats | None = None,
    embeddings: Floats | None = None,
) -> list[Forecast]:
    """One forecast per row, by ranker ``name`` at ``version``.

    ``scores`` [n], ``quantiles`` [n, levels] in output tokens, ``novelty`` [n] in [0, 1],
    ``embeddings`` [n, width], of which forecasts carry the sketch.
    """
    strange: Sequence[float] = [0.0] * len(scores) if novelty is None else novelty.tolist()
    drawn = [()] * len(scores) if embeddings is None else sketches(embeddings)
    rows = zip(scores.tolist(), quantiles.tolist(), strange, drawn, strict=True)
    return [
        Forecast(s, tuple(q), name, version, levels, n, sketch=sketch) for s, q, n, sketch in rows
    ]
