"""Observations as arrays: a reference, or many streams at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drift.detectors.observation import Observation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Observations in arrival order along the first axis; a second axis holds parallel streams.

    Fields as in :class:`Observation`; the last three may be left out where no detector that is
    used reads them. Raises ``ValueError`` when shapes differ.
    """

    scores: Floats
    tokens: Ints
    censored: Bools
    pit: Floats | None = None
    log_error: Floats | None = None
    prompt_tokens: Ints | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            values = getattr(self, field.name)
            if values is not None and values.shape != self.scores.shape:
                raise ValueError(
                    f"sample.{field.name} must have the shape of sample.scores, "
                    f"{self.scores.shape}, got {values.shape}"
                )

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def streams(self) -> int:
        """Parallel streams; 1 for a plain sequence."""
        return 1 if self.scores.ndim == 1 else self.scores.shape[1]

    @classmethod
    def of(cls, observations: Sequence[Observation]) -> Sample:
        """Arrays of shape [n]."""
        return cls(
            np.array([o.score for o in observations], np.float64),
            np.array([o.tokens for o in observations], np.int64),
            np.array([o.censored for o in observations], np.bool_),
            np.array([o.pit for o in observations], np.float64),
            np.array([o.log_error for o in observations], np.float64),
            np.array([o.prompt_tokens for o in observations], np.int64),
        )

    def take(self, index: NDArray[np.intp]) -> Sample:
        """Rows ``index``, of any shape, of a plain sequence."""
        return self._each(lambda values: values[index])

    def columns(self) -> Sample:
        """The same with an axis of streams."""
        return self if self.scores.ndim == 2 else self._each(lambda values: values[:, None])

    def rows(self, start: int, stop: int | None = None) -> Sample:
        """A span of time."""
        return self._each(lambda values: values[start:stop])

    def row(self, time: int, stream: int = 0) -> Observation:
        """One observation; what was left out is a calibrated nothing."""
        at = self.columns()
        return Observation(
            float(at.scores[time, stream]),
            int(at.tokens[time, stream]),
            bool(at.censored[time, stream]),
            0.5 if at.pit is None else float(at.pit[time, stream]),
            0.0 if at.log_error is None else float(at.log_error[time, stream]),
            0 if at.prompt_tokens is None else int(at.prompt_tokens[time, stream]),
        )

    def _each(self, function: Callable[[Any], Any]) -> Sample:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        changed: dict[str, Any] = {k: v if v is None else function(v) for k, v in values.items()}
        return replace(self, **changed)
