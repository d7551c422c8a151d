"""A model and its calibration: what serves, whichever the model is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ranker.calibrator import Calibrator
from ranker.forecasts import forecasts
from ranker.prediction import LengthModel, Prediction
from ranker.scale import Scale
from ranker.types import Forecast

#: Served model of a ranker that stands in for every model without one of its own.
POOLED = "pooled"


class NoveltyMeasure(Protocol):
    """How strange prompts are to a model, as shares in [0, 1] of the traffic like its training."""

    def of(self, prompts: Sequence[str], prediction: Prediction) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class LengthRanker:
    """A :class:`ranker.types.Ranker`. Pure and safe to call from several threads.

    ``calibration`` is what holds where nothing closer is known. A ranker of several served models
    has one of each in ``calibrations`` and their ``scales``, which make scores comparable across
    them: within a model the order is the model's, across models it follows expected length. The
    scale under the empty text is that of all models together.
    """

    model: LengthModel
    calibration: Calibrator
    served_model: str
    name: str = "length-ranker"
    version: str = "unregistered"
    calibrations: Mapping[str, Calibrator] = field(default_factory=dict)
    scales: Mapping[str, Scale] = field(default_factory=dict)
    novelty: NoveltyMeasure | None = None

    def __post_init__(self) -> None:
        if self.scales and set(self.scales) != {"", *self.calibrations}:
            raise ValueError("ranker.scales must hold one per calibrated model and the pooled one")

    def knows(self, served_model: str) -> bool:
        """Whether forecasts for ``served_model`` are its own, not those of all models together."""
        if self.calibrations:
            return served_model in self.calibrations
        return served_model == self.served_model

    def forecast(self, prompts: Sequence[str], served_model: str = "") -> list[Forecast]:
        """One forecast per prompt, in order, for ``served_model`` or the ranker's own.

        A model that the ranker does not know gets the pooled forecast; see :meth:`knows`.
        """
        if not prompts:
            return []
        served = served_model or self.served_model
        own = served if served in self.calibrations else ""
        calibration = self.calibrations.get(own, self.calibration)
        prediction = self.model.predict(prompts, served)
        return forecasts(
            self.scales.get(own, Scale())(prediction.scores),
            calibration.quantiles(prediction),
            calibration.levels,
            self.name,
            self.version,
            None if self.novelty is None else self.novelty.of(prompts, prediction),
            prediction.embeddings,
        )

    def serving(self, served_model: str) -> LengthRanker:
        """The same ranker answering for ``served_model``; itself when it does not know that."""
        return replace(self, served_model=served_model) if self.knows(served_model) else self

    def at_version(self, name: str, version: str) -> LengthRanker:
        """The same ranker under the name and version that a registry gave it."""
        return replace(self, name=name, version=version)
