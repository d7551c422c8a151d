"""Prediction -> quantiles of output tokens: what every way of calibrating can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ranker.prediction import Prediction

Floats = NDArray[np.float64]


class Calibrator(Protocol):
    """Fitted on rows that the model was not trained on, for one served model or for all together.

    What it was fitted to travels as arrays and JSON numbers, so that an artifact needs no pickle.
    """

    #: Under which name :data:`ranker.calibrators.KINDS` finds it.
    kind: ClassVar[str]

    @property
    def levels(self) -> tuple[float, ...]:
        """Probabilities in (0, 1), ascending."""
        ...

    def quantiles(self, prediction: Prediction) -> Floats:
        """[n, levels], output tokens, not descending along the levels.

        Raises ``ValueError`` when the prediction lacks what was calibrated.
        """
        ...

    def arrays(self) -> dict[str, Floats]: ...

    def numbers(self) -> dict[str, Any]:
        """What is no array, as JSON takes it."""
        ...

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`arrays` and :meth:`numbers`.

        Raises ``KeyError`` for what is missing and ``ValueError`` for what makes no sense.
        """
        ...
