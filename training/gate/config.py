"""What a challenger has to show."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.efficiency import SMALL_COST, SMALL_ENGINE


@dataclass(frozen=True, slots=True)
class BurstConfig:
    """Bursts of ``requests`` held-out prompts on the engine of the drift monitor's replays, unless
    told otherwise. ``utilisation`` is the work that arrives for each unit the engine can do: at 2 a
    queue builds up, near 1 mere luck decides.
    """

    bursts: int = 24
    requests: int = 300
    utilisation: float = 2.0
    cost: CostModel = SMALL_COST
    scheduler: SchedulerConfig = SMALL_ENGINE

    @property
    def smaller(self) -> BurstConfig:
        """Half as many of half the size: for parts, of which there may be many. Intervals widen."""
        return replace(self, bursts=max(2, self.bursts // 2), requests=max(2, self.requests // 2))

    def __post_init__(self) -> None:
        if self.bursts < 2 or self.requests < 2:
            raise ValueError("bursts.bursts and bursts.requests must be at least 2")
        if not self.utilisation > 0.0:
            raise ValueError(f"bursts.utilisation must be above 0, got {self.utilisation}")


@dataclass(frozen=True, slots=True)
class GateConfig:
    """Bounds of the gate; all differences are challenger minus champion.

    ``margin``: the tau-b that the lower end of the interval may lie below 0. ``slice_loss`` and
    ``efficiency_loss``: what a slice, and the efficiency, may lose. ``slice_rows``: rows below
    which a slice is not judged. ``calibration``: how far coverage of p50 and p90 may be off.
    ``least_rows``: rows below which nothing is compared. Of recent outcomes the newest
    ``recent_rows`` are, and of tenants and of lanes the ``live_slices`` with the most rows each.
    """

    margin: float = 0.02
    slice_loss: float = 0.05
    slice_rows: int = 100
    efficiency_loss: float = 0.02
    calibration: float = 0.05
    least_rows: int = 30
    recent_rows: int = 5000
    live_slices: int = 8
    resamples: int = 500
    bursts: BurstConfig = field(default_factory=BurstConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("margin", "slice_loss", "efficiency_loss", "calibration"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"gate.{name} must be at least 0, got {getattr(self, name)}")
        if self.recent_rows < self.least_rows or self.live_slices < 0:
            raise ValueError(
                "gate.recent_rows must be at least gate.least_rows, gate.live_slices at least 0"
            )
        if self.least_rows < 2 or self.slice_rows < 2 or self.resamples < 1:
            raise ValueError(
                "gate.least_rows and gate.slice_rows must be at least 2, gate.resamples at least 1"
            )
