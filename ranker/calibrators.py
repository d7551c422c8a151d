"""Which way of calibrating a model is the best one, by rows that none was fitted on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranker import calibration, conformal
from ranker.calibration import Calibration, CalibrationConfig, pinball
from ranker.calibrator import Calibrator
from ranker.conformal import Conformal
from ranker.prediction import Prediction
from ranker.validation import fold_numbers, simplest

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
_Fit = Callable[[Prediction, Floats, Bools, Ints, CalibrationConfig], Calibrator]


@dataclass(frozen=True, slots=True)
class Averaged:
    """Quantiles of both, averaged in log tokens (Vincent 1912): one reads the score alone, the
    other the whole distribution that the model gives. Raises ``ValueError`` when levels differ.
    """

    kind: ClassVar[str] = "average"

    table: Calibration
    conformal: Conformal

    def __post_init__(self) -> None:
        if self.table.levels != self.conformal.levels:
            raise ValueError("average: both calibrations must have the same levels")

    @property
    def levels(self) -> tuple[float, ...]:
        return self.table.levels

    def quantiles(self, prediction: Prediction) -> Floats:
        """[n, levels], output tokens, not descending; see :class:`ranker.calibrator.Calibrator`."""
        a, b = self.table.quantiles(prediction), self.conformal.quantiles(prediction)
        return np.maximum.accumulate(np.expm1((np.log1p(a) + np.log1p(b)) / 2.0), axis=1)

    def arrays(self) -> dict[str, Floats]:
        return self.table.arrays() | self.conformal.arrays()

    def numbers(self) -> dict[str, Any]:
        return self.table.numbers() | self.conformal.numbers()

    @classmethod
    def restore(cls, arrays: Mapping[str, Floats], numbers: Mapping[str, Any]) -> Averaged:
        return cls(Calibration.restore(arrays, numbers), Conformal.restore(arrays, numbers))


#: What an artifact can hold, by kind.
KINDS: dict[str, type[Calibrator]] = {
    kind.kind: kind for kind in (Calibration, Conformal, Averaged)
}


def fit_calibrator(
    prediction: Prediction,
    tokens: ArrayLike,
    censored: ArrayLike,
    config: CalibrationConfig | None = None,
    *,
    groups: ArrayLike | None = None,
) -> Calibrator:
    """The best calibration of ``prediction``, rows that the model was not trained on.

    A model without quantiles gets its score calibrated. Otherwise the table of scores, the
    conformalised quantiles and the average of both are compared by cross-validated quantile loss;
    of those within one standard error of the best the first in that order is taken. Each of them
    gives everybody the marginal quantiles when the model knows nothing.

    ``tokens`` and ``censored`` [n]; ``groups`` [n] marks rows of one prompt by one number, so that
    no row is judged by another draw of its prompt. Raises ``ValueError`` when shapes differ, a
    number is not finite, or there are fewer than 20 rows or one prompt alone.
    """
    config = config or CalibrationConfig()
    s, y, c, group = calibration.checked(prediction.scores, tokens, censored, groups)
    if prediction.quantiles is None:
        return _table(prediction, y, c, group, config)
    if prediction.quantiles.shape[0] != len(s) or not np.all(np.isfinite(prediction.quantiles)):
        raise ValueError("calibration: quantiles must be finite, one row per score")
    fits: tuple[_Fit, ...] = (_table, conformal.fit, _average)
    losses = np.empty((len(fits), len(s)))
    fold = fold_numbers(s, group, config.folds)
    for held in range(config.folds):
        out = fold == held
        rows = (y[~out], c[~out], group[~out])
        inside, outside = _part(prediction, ~out), _part(prediction, out)
        table, moved = _table(inside, *rows, config), conformal.fit(inside, *rows, config)
        tried: tuple[Calibrator, ...] = (table, moved, Averaged(table, moved))
        for i, fitted in enumerate(tried):
            losses[i, out] = pinball(fitted.quantiles(outside), y[out], c[out], config.levels)
    return fits[simplest(losses, group)](prediction, y, c, group, config)


def _table(
    prediction: Prediction, tokens: Floats, censored: Bools, groups: Ints, config: CalibrationConfig
) -> Calibration:
    return calibration.fit_checked(prediction.scores, tokens, censored, groups, config)


def _average(
    prediction: Prediction, tokens: Floats, censored: Bools, groups: Ints, config: CalibrationConfig
) -> Averaged:
    rows = (prediction, tokens, censored, groups, config)
    return Averaged(_table(*rows), conformal.fit(*rows))


def _part(prediction: Prediction, rows: Bools) -> Prediction:
    assert prediction.quantiles is not None
    return Prediction(prediction.scores[rows], prediction.quantiles[rows])
