"""What every detector is: learned from a reference, then fed one observation after the other.

The style is that of River (J. Montiel et al., JMLR 22, 2021): ``update`` takes one value and
``drift_detected`` says what came of it. Beside it stands the height of the evidence, because a
number that nears its limit tells an operator more than an alarm out of the blue.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from drift.detectors.bootstrap import BootstrapConfig
from drift.detectors.observation import Observation
from drift.detectors.sample import Floats, Sample


class Kind(StrEnum):
    """What an alarm means. ``RANK``: forecasts have ceased to order lengths. ``SCALE``: their
    numbers are wrong, recalibrate. ``COVARIATE``: other requests come, which may be harmless."""

    RANK = "rank"
    SCALE = "scale"
    COVARIATE = "covariate"


class Detector(Protocol):
    """One running detector of one stream."""

    @property
    def height(self) -> float:
        """How much speaks for drift; 0 and below: nothing."""
        ...

    @property
    def limit(self) -> float:
        """Height at which drift is detected."""
        ...

    @property
    def drift_detected(self) -> bool: ...

    def update(self, observation: Observation) -> None:
        """The next outcome, in arrival order."""
        ...

    def reset(self) -> None:
        """Forget the stream, keep the reference: as new."""
        ...


class Fitted(Protocol):
    """What a method learned from a reference."""

    @property
    def limits(self) -> tuple[float, ...]:
        """Heights that a stationary stream passes once in each of the run lengths asked for."""
        ...

    def detector(self, level: int = 0) -> Detector:
        """A new detector at ``limits[level]``."""
        ...

    def heights(self, streams: Sample) -> Floats:
        """Height after each outcome of each stream, [time, streams]: what :meth:`detector` gives,
        for many streams at once."""
        ...


class Method(Protocol):
    """A detector's settings: what is left is a reference to learn from."""

    @property
    def kind(self) -> Kind: ...

    def fit(
        self, reference: Sample, arl: Sequence[float], bootstrap: BootstrapConfig | None = None
    ) -> Fitted:
        """Learn from ``reference``, in arrival order. ``arl``: mean outcomes between false alarms.

        Raises ``ValueError`` when the reference is too short or says nothing.
        """
        ...
