"""Several models heard together: what the words promise and what a transformer understands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ranker.prediction import LengthModel, Prediction
from ranker.scale import Scale

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BlendModel:
    """Weighted sum of the scores of ``parts``, each put on one scale by its own of ``scales``.

    The scales are straight lines with a positive slope, so the score rises with that of every
    part, however far it lies from what was seen in training. Quantiles are averaged in log tokens
    over the parts that have them, with their weights; embeddings are those of the first part that
    has any. Raises ``ValueError`` when there are no parts, the lists differ in length or a weight
    is not a positive number.
    """

    kind: ClassVar[str] = "blend"

    parts: tuple[LengthModel, ...]
    weights: tuple[float, ...]
    scales: tuple[Scale, ...]

    def __post_init__(self) -> None:
        if not self.parts or not len(self.parts) == len(self.weights) == len(self.scales):
            raise ValueError(
                f"blend: {len(self.parts)} parts, {len(self.weights)} weights and "
                f"{len(self.scales)} scales; there must be one weight and one scale per part"
            )
        if not all(math.isfinite(weight) and weight > 0.0 for weight in self.weights):
            raise ValueError(f"blend.weights must be positive numbers, got {self.weights}")

    def predict(self, prompts: Sequence[str], served_model: str = "") -> Prediction:
        """See :class:`ranker.prediction.LengthModel`."""
        return self.combine([part.predict(prompts, served_model) for part in self.parts])

    def combine(self, predictions: Sequence[Prediction]) -> Prediction:
        """The blend of what the parts said of the same prompts, one prediction per part."""
        rows = list(zip(self.weights, self.scales, predictions, strict=True))
        scores = np.sum([weight * scale(said.scores) for weight, scale, said in rows], axis=0)
        told = [(w, said.quantiles) for w, _, said in rows if said.quantiles is not None]
        seen = (said.embeddings for said in predictions if said.embeddings is not None)
        return Prediction(scores, _in_log(told), next(seen, None))


def _in_log(told: Sequence[tuple[float, Floats]]) -> Floats | None:
    if not told:
        return None
    whole = sum(weight for weight, _ in told)
    mean = np.sum([weight / whole * np.log1p(quantiles) for weight, quantiles in told], axis=0)
    # A mean of ascending rows ascends; rounding may not.
    return np.maximum.accumulate(np.expm1(mean), axis=1)
