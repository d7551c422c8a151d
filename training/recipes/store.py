"""Scores that took minutes to get, kept as JSON: ids of nothing, text of nothing, numbers only."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from training.recipes.compare import Floats


@dataclass(frozen=True)
class Fitted:
    """What a recipe gave: ``scores`` by what was asked (:func:`training.recipes.benchmark.asked`,
    one for each of its questions), the processor ``minutes`` of training and the processor
    ``milliseconds`` of one prompt."""

    recipe: str
    minutes: float
    milliseconds: float
    scores: dict[str, Floats]


class Results(Protocol):
    """Where results can be looked up."""

    def get(self, key: str) -> Fitted | None:
        """What is kept under ``key``; ``None`` when there is nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Store:
    """One file a key under ``folder``, written whole or not at all. What is not there is looked up
    in ``otherwise``."""

    folder: Path
    otherwise: Results | None = None

    def get(self, key: str) -> Fitted | None:
        """What is kept under ``key``; ``None`` when there is nothing, or nothing readable."""
        own = self._own(key)
        return own if own is not None or self.otherwise is None else self.otherwise.get(key)

    def _own(self, key: str) -> Fitted | None:
        try:
            values = json.loads(self._path(key).read_text(encoding="utf-8"))
            scores = {name: np.array(row, dtype=float) for name, row in values["scores"].items()}
            return Fitted(
                str(values["recipe"]),
                float(values["minutes"]),
                float(values["milliseconds"]),
                scores,
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, key: str, fitted: Fitted) -> None:
        values = {
            "recipe": fitted.recipe,
            "minutes": fitted.minutes,
            "milliseconds": fitted.milliseconds,
            "scores": {name: row.tolist() for name, row in fitted.scores.items()},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(values, file)
            os.replace(name, self._path(key))
        except BaseException:
            os.unlink(name)
            raise

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"
