"""Percentiles of strangeness among prompts of the training traffic that were held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ranker.features import FEATURES
from ranker.novelty.contrast import Contrast
from ranker.novelty.distance import Distance
from ranker.prediction import Prediction
from ranker.window import Window

Floats = NDArray[np.float64]
_PARTS = ("references", "combined")


@dataclass(frozen=True, slots=True)
class Novelty:
    """Two views: how far the features of the text are from those in training, and, where it was
    fitted, how much more the text is written like reference prompts.

    Each view is a percentile of its own. Together they are the larger one as in a weighted
    Bonferroni test (Genovese, Roeder & Wasserman 2006): a view that holds the share ``w`` of the
    alarms says ``1 - (1 - percentile) / w``. What comes of it is a percentile again.

    ``references`` [views, held] and ``combined`` [held], ascending. It holds no text.
    """

    kind: ClassVar[str] = "novelty"

    window: Window
    distance: Distance
    contrast: Contrast | None
    distance_share: float
    references: Floats
    combined: Floats

    def of(self, prompts: Sequence[str], prediction: Prediction) -> Floats:
        """[n] in [0, 1]; .95 is stranger than 95% of the held-out traffic. Texts alone decide."""
        if not prompts:
            return np.empty(0)
        return _percentiles(self.combined, self._larger(self.views(prompts)))

    def views(self, prompts: Sequence[str]) -> list[Floats]:
        """The distance and, where there is one, the contrast; each [n]."""
        found = [self.distance.of(prompts, self.window)]
        if self.contrast is not None:
            found.append(self.contrast.of(prompts, self.window))
        return found

    def referred(self, prompts: Sequence[str]) -> Self:
        """The same with percentiles among ``prompts``."""
        views = self.views(prompts)
        known = replace(self, references=np.sort(np.stack(views), axis=1))
        return replace(known, combined=np.sort(known._larger(views)))

    def _shares(self) -> tuple[float, ...]:
        if self.contrast is None:
            return (1.0,)
        other = (1.0 - self.distance_share) * self.contrast.weight
        return (1.0 - other, other)

    def _larger(self, views: Sequence[Floats]) -> Floats:
        each = [
            1.0 - (1.0 - _percentiles(reference, view)) / share
            for reference, view, share in zip(self.references, views, self._shares(), strict=True)
            if share > 0.0
        ]
        return np.asarray(np.max(each, axis=0))

    def arrays(self) -> dict[str, NDArray[Any]]:
        parts = {name: getattr(self, name) for name in _PARTS} | self.distance.arrays()
        return parts if self.contrast is None else parts | self.contrast.arrays()

    def numbers(self) -> dict[str, Any]:
        return {
            "features": list(FEATURES),
            "window": asdict(self.window),
            "distance_share": self.distance_share,
            "contrast": None if self.contrast is None else self.contrast.numbers(),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> Self:
        """What :meth:`arrays` and :meth:`numbers` gave. Raises ``ValueError``, ``TypeError`` or
        ``KeyError`` for parts that do not fit together or were made for other features."""
        if "prototypes" in arrays:
            raise ValueError("of an earlier version; train the ranker again")
        if numbers["features"] != list(FEATURES):
            raise ValueError("made for other text features")
        stored = numbers["contrast"]
        contrast = None if stored is None else Contrast.restore(arrays, stored)
        held = len(arrays["combined"])
        shapes = {"references": (1 if contrast is None else 2, held), "combined": (held,)}
        for name, shape in shapes.items():
            if arrays[name].shape != shape or not np.all(np.isfinite(arrays[name])):
                raise ValueError(f"{name} must be finite and of shape {shape}")
        if not held:
            raise ValueError("combined must not be empty")
        share = float(numbers["distance_share"])
        if not 0.0 < share <= 1.0:
            raise ValueError(f"distance_share must lie in (0, 1], got {share}")
        return cls(
            Window(**numbers["window"]),
            Distance.restore(arrays),
            contrast,
            share,
            **{name: arrays[name] for name in _PARTS},
        )


def _percentiles(reference: Floats, values: Floats) -> Floats:
    """Share of ``reference`` (ascending) below each value, ties halved."""
    below = np.searchsorted(reference, values, side="left")
    upto = np.searchsorted(reference, values, side="right")
    return np.asarray((below + upto) / (2.0 * len(reference)))
