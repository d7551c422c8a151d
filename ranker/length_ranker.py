"""A model and its calibration: what serves, whichever the model is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ranker.calibration import Calibration
from ranker.forecasts import forecasts
from ranker.prediction import LengthModel
from ranker.types import Forecast


@dataclass(frozen=True)
class LengthRanker:
    """A :class:`ranker.types.Ranker`. Pure and safe to call from several threads."""

    model: LengthModel
    calibration: Calibration
    served_model: str
    name: str = "length-ranker"
    version: str = "unregistered"

    def forecast(self, prompts: Sequence[str]) -> list[Forecast]:
        """One forecast per prompt, in order."""
        scores = self.model.predict(prompts, self.served_model).scores
        return forecasts(scores.tolist(), self.calibration, self.name, self.version)

    def at_version(self, name: str, version: str) -> LengthRanker:
        """The same ranker under the name and version that a registry gave it."""
        return replace(self, name=name, version=version)
