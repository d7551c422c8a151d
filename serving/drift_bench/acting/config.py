"""What is replayed, and how long."""

from __future__ import annotations

from dataclasses import dataclass, field

from drift.acting.config import ActConfig
from serving.drift_bench.streams import StreamConfig

#: Scores in the opposite order after the change: the longest first, the worst that can happen.
REVERSED = "reversed"


@dataclass(frozen=True, slots=True)
class ActingConfig:
    """``shift``: what traffic turns into, by name, or :data:`REVERSED`.

    ``warm_up``: arrivals that fill windows and memories and are not measured. ``usual``,
    ``changed``, ``again``: arrivals of usual traffic, of what it turns into at once, and of usual
    traffic once more. ``policies``: orders that are compared, each with the monitor acting and
    without. ``seeds``: replays. ``longest``: share of requests that are called long.
    ``window``: arrivals of one point of the figures. ``limit``: tokens at which answers are cut
    off. ``open_every``: seconds between two reports of requests under way, as the engine sends
    them. ``act``: the actions that are taken. ``streams``: engine, load and bursts; load is the
    same in every phase, whatever lengths become.
    """

    shift: str = REVERSED
    warm_up: int = 1500
    usual: int = 900
    changed: int = 1800
    again: int = 1800
    policies: tuple[str, ...] = ("ranked", "boost-fast", "boost-safe")
    seeds: int = 8
    longest: float = 0.1
    window: int = 150
    limit: int = 1024
    open_every: float = 5.0
    seed: int = 20261130
    act: ActConfig = field(default_factory=ActConfig)
    streams: StreamConfig = field(default_factory=StreamConfig)

    def __post_init__(self) -> None:
        for name in ("usual", "changed", "again", "seeds", "window", "limit"):
            if getattr(self, name) < 1:
                raise ValueError(f"acting.{name} must be >= 1, got {getattr(self, name)}")
        if self.warm_up < 0:
            raise ValueError(f"acting.warm_up must be >= 0, got {self.warm_up}")
        if not self.policies:
            raise ValueError("acting.policies must name at least one policy")
        if not 0.0 < self.longest < 1.0:
            raise ValueError(f"acting.longest must lie inside (0, 1), got {self.longest}")
        if not self.open_every > 0.0:
            raise ValueError(f"acting.open_every must be above 0 s, got {self.open_every}")

    @property
    def arrivals(self) -> int:
        return self.warm_up + self.usual + self.changed + self.again

    @property
    def change(self) -> int:
        """Number of the first arrival after the change."""
        return self.warm_up + self.usual

    @property
    def back(self) -> int:
        """Number of the first arrival after traffic went back to usual."""
        return self.change + self.changed
