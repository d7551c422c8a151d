"""A fitted model and rows it was not trained on -> a calibrated ranker, of one model or several."""

from __future__ import annotations

from collections.abc import Sequence

from ranker import scale
from ranker.calibration import CalibrationConfig
from ranker.calibrator import Calibrator
from ranker.calibrators import fit_calibrator
from ranker.length_ranker import POOLED, LengthRanker, NoveltyMeasure
from ranker.prediction import LengthModel, Prediction
from ranker.scale import Scale
from training.draws import prompt_numbers
from training.said import said_of
from training.sources import Example, Lengths

#: Rows below which a served model gets the pooled calibration: its own would be mostly chance.
LEAST_ROWS = 50


def calibrated(
    model: LengthModel,
    held: Sequence[Example],
    said: Prediction,
    config: CalibrationConfig,
    *,
    served_model: str,
    name: str,
    novelty: NoveltyMeasure | None = None,
) -> LengthRanker:
    """A ranker of ``model``, calibrated on ``held`` rows, those of validation; ``said`` is
    what the model says of them for ``served_model``.

    With ``served_model`` ``"pooled"`` the rows may be of several: each with enough of them gets a
    calibration and a scale of its own, and all together those that every other model gets. Raises
    ``ValueError`` when there are too few rows; see :func:`ranker.calibrators.fit_calibrator`.
    """
    common = _calibrator(said, held, config)
    if served_model != POOLED:
        return LengthRanker(model, common, served_model, name, novelty=novelty)
    calibrations: dict[str, Calibrator] = {}
    scales: dict[str, Scale] = {"": _scale(said, held)}
    for served in sorted({e.model for e in held}):
        rows = [e for e in held if e.model == served]
        if len(rows) >= LEAST_ROWS:
            own = said_of(model, rows, served)
            calibrations[served] = _calibrator(own, rows, config)
            scales[served] = _scale(own, rows)
    return LengthRanker(
        model,
        common,
        POOLED,
        name,
        calibrations=calibrations,
        scales=scales if calibrations else {},
        novelty=novelty,
    )


def _calibrator(
    prediction: Prediction, rows: Sequence[Example], config: CalibrationConfig
) -> Calibrator:
    lengths = Lengths.of(rows)
    return fit_calibrator(
        prediction, lengths.tokens, lengths.censored, config, groups=prompt_numbers(rows)
    )


def _scale(prediction: Prediction, rows: Sequence[Example]) -> Scale:
    lengths = Lengths.of(rows)
    return scale.fit(prediction.scores, lengths.tokens, lengths.censored)
