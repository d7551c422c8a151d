"""How much more a text is written like reference prompts than like the training prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ranker.ngrams import Counts, NgramConfig, NgramWeights, count_words
from ranker.novelty.outline import outline
from ranker.window import Window

Floats = NDArray[np.float64]
_LEAST = 2  # texts that a bucket must occur in


@dataclass(frozen=True, slots=True)
class Contrast:
    """Log odds of reference prompts over own ones, by the hashed n-grams of outlines.

    Outlier exposure (Hendrycks et al. 2019, arXiv 1812.04606): what is known to be of other
    traffic says better what is strange than distance from one's own does. ``weight`` in (0, 1] is
    how far it is to be listened to.
    """

    config: NgramConfig
    weights: NgramWeights
    weight: float = 1.0

    @classmethod
    def fit(
        cls,
        own: Sequence[str],
        references: Sequence[str],
        config: NgramConfig,
        window: Window,
        penalty: float,
    ) -> Self:
        """Logistic regression, both sides of equal weight in all."""
        from scipy.sparse import csr_array
        from sklearn.linear_model import LogisticRegression

        counts = _counted([*own, *references], config, window)
        seen = np.bincount(counts.buckets, minlength=config.buckets)
        idf = np.log((1.0 + len(counts)) / (1.0 + seen)) + 1.0
        idf = np.where(seen >= _LEAST, idf, 0.0).astype(np.float32)
        values = (counts.frequencies * idf[counts.buckets]).astype(np.float64)
        rows = np.repeat(np.arange(len(counts)), np.diff(counts.starts))
        norms = np.sqrt(np.bincount(rows, values**2, len(counts)))
        values /= np.where(norms > 0.0, norms, 1.0)[rows]
        shape = (len(counts), config.buckets)
        model = LogisticRegression(
            C=1.0 / penalty, class_weight="balanced", solver="liblinear", random_state=0
        ).fit(
            csr_array((values, counts.buckets, counts.starts.astype(np.int32)), shape=shape),
            np.repeat([0, 1], [len(own), len(references)]),
        )
        coefficients = model.coef_[0].astype(np.float32)
        return cls(config, NgramWeights(idf, coefficients, float(model.intercept_[0])))

    def of(self, prompts: Sequence[str], window: Window) -> Floats:
        """Log odds, [n]."""
        return self.weights.predict(_counted(prompts, self.config, window))

    def arrays(self) -> dict[str, NDArray[Any]]:
        used = np.flatnonzero(self.weights.idf)
        return {
            "buckets": used.astype(np.int32),
            "idf": self.weights.idf[used],
            "coefficients": self.weights.coefficients[used],
        }

    def numbers(self) -> dict[str, Any]:
        return {
            "outlines": asdict(self.config),
            "intercept": self.weights.intercept,
            "weight": self.weight,
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> Self:
        """Raises ``ValueError``, ``TypeError`` or ``KeyError`` for parts that do not fit."""
        config = NgramConfig(**numbers["outlines"])
        buckets = arrays["buckets"]
        if buckets.ndim != 1 or buckets.dtype.kind != "i" or np.any(np.diff(buckets) <= 0):
            raise ValueError("buckets must be whole numbers that ascend")
        if len(buckets) and not 0 <= buckets[0] <= buckets[-1] < config.buckets:
            raise ValueError(f"buckets must lie between 0 and {config.buckets - 1}")
        whole = {name: np.zeros(config.buckets, np.float32) for name in ("idf", "coefficients")}
        for name, values in whole.items():
            found = arrays[name]
            if found.shape != buckets.shape or not np.all(np.isfinite(found)):
                raise ValueError(f"{name} must be finite and one for each bucket")
            values[buckets] = found
        weight = float(numbers["weight"])
        if not 0.0 < weight <= 1.0:
            raise ValueError(f"weight must lie in (0, 1], got {weight}")
        weights = NgramWeights(**whole, intercept=float(numbers["intercept"]))
        return cls(config, weights, weight)


def _counted(prompts: Sequence[str], config: NgramConfig, window: Window) -> Counts:
    return count_words((outline(window.cut(prompt)) for prompt in prompts), config)
