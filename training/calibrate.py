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
from training.sources import Example, Lengths

#: Rows below which a served model gets the pooled calibration: its own would be mostly chance.
LEAST_ROWS = 50


def calibrated(
    model: LengthModel,
    held: Sequence[Example],
    config: CalibrationConfig,
    *,
    served_model: str,
    name: str,
    novelty: NoveltyMeasure | None = None,
) -> LengthRanker:
    """A ranker of ``model``, calibrated on ``held`` rows, those of validation.

    With ``served_model`` ``"pooled"`` the rows may be of several: each with enough of them gets a
    calibration and a scale of its own, and all together those that every other model gets. Raises
    ``ValueError`` when there are too few rows; see :func:`ranker.calibrators.fit_calibrator`.
    """
    if served_model != POOLED:
        predicted = model.predict([e.prompt for e in held], served_model)
        one = _calibrator(predicted, held, config)
        return LengthRanker(model, one, served_model, name, novelty=novelty)
    predicted = model.predict([e.prompt for e in held])
    common = _calibrator(predicted, held, config)
    calibrations: dict[str, Calibrator] = {}
    scales: dict[str, Scale] = {"": _scale(predicted, held)}
    for served in sorted({e.model for e in held}):
        rows = [e for e in held if e.model == served]
        if len(rows) >= LEAST_ROWS:
            predicted = model.predict([e.prompt for e in rows], served)
            calibrations[served] = _calibrator(predicted, rows, config)
            scales[served] = _scale(predicted, rows)
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
