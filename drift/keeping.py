"""How long realised lengths are kept."""

from __future__ import annotations

from dataclasses import dataclass

from drift.recovery import LAST


@dataclass(frozen=True, slots=True)
class KeepConfig:
    """``days`` since they finished, and ``rows`` at most; 0: no limit. The newest ``least`` always
    stay: a restart needs them. ``batch``: deleted in one go. ``every``: new outcomes between two
    times that old ones are looked for, ``seconds`` at least once in.
    """

    days: float = 90.0
    rows: int = 5_000_000
    least: int = LAST
    batch: int = 500
    every: int = 20_000
    seconds: float = 3600.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.days < float("inf"):
            raise ValueError(f"keep.days must be >= 0 and finite (0: for ever), got {self.days}")
        if self.rows < 0:
            raise ValueError(f"keep.rows must be >= 0 (0: no limit), got {self.rows}")
        if 0 < self.rows < self.least:
            raise ValueError(
                f"keep.rows must be 0 or at least {self.least}, what a restart weighs again, "
                f"got {self.rows}"
            )
        for name in ("least", "batch", "every"):
            if getattr(self, name) < 1:
                raise ValueError(f"keep.{name} must be >= 1, got {getattr(self, name)}")
        if not self.seconds > 0.0:
            raise ValueError(f"keep.seconds must be above 0, got {self.seconds}")

    def oldest(self, now: float) -> float:
        """Unix second before which outcomes that finished are too old."""
        return now - 86_400.0 * self.days if self.days else float("-inf")
