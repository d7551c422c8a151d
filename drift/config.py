"""Configuration of the drift monitor, composed of the configurations of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from drift.arrival import HoldConfig
from drift.detectors.concordance_cusum import ChartConfig
from drift.detectors.pit_cusum import PitConfig
from drift.early import EarlyConfig
from drift.slices import SliceConfig
from drift.states import StateConfig


@dataclass(frozen=True, slots=True)
class UnscoredConfig:
    """Shares of requests without a forecast at which a state is entered; it stays down to ``keep``
    times that share. Below ``least`` outcomes no share is judged."""

    warn: float = 0.2
    degraded: float = 0.5
    fcfs: float = 0.9
    keep: float = 0.75
    least: int = 100

    def __post_init__(self) -> None:
        if not 0.0 < self.warn < self.degraded < self.fcfs <= 1.0:
            raise ValueError("unscored.warn, .degraded and .fcfs must ascend inside (0, 1]")
        if not 0.0 < self.keep <= 1.0:
            raise ValueError(f"unscored.keep must lie in (0, 1], got {self.keep}")
        if self.least < 1:
            raise ValueError(f"unscored.least must be >= 1, got {self.least}")


@dataclass(frozen=True, slots=True)
class MonitorConfig:
    """Counts are outcomes of one served model and ranker version, in arrival order.

    ``window``: outcomes of the displayed statistics. ``every``: outcomes between two looks at it.
    ``reference_first``: outcomes from which a reference is learned when none is given, learned
    again at each doubling up to ``reference_most`` while all is well. ``warn_arl`` and
    ``degraded_arl``: mean outcomes between false alarms of each rank detector, of which there are
    two. ``least``: outcomes below
    which tau-b alone decides nothing; ``fcfs_least``: the same for ``fcfs``. ``useful_tau``: below
    it, with confidence, forecasts aren't worth scheduling by. ``recover``: share of the reference
    tau-b that the window must regain before ``degraded`` ends. ``fcfs_recover``: the same for
    ``fcfs``. ``streams``: most streams watched at once. ``history``: looks kept for the report.
    ``lapse``: outcomes of other versions of a served model after which one is over. ``idle``:
    seconds without an outcome after which a series is over.
    """

    window: int = 500
    every: int = 25
    reference_first: int = 400
    reference_most: int = 1600
    warn_arl: float = 25_000.0
    degraded_arl: float = 100_000.0
    least: int = 200
    fcfs_least: int = 400
    useful_tau: float = 0.1
    recover: float = 0.85
    fcfs_recover: float = 0.3
    confidence: float = 0.95
    streams: int = 32
    history: int = 2_000
    lapse: int = 200
    idle: float = 86_400.0
    hold: HoldConfig = field(default_factory=HoldConfig)
    slices: SliceConfig = field(default_factory=SliceConfig)
    chart: ChartConfig = field(default_factory=ChartConfig)
    early: EarlyConfig = field(default_factory=EarlyConfig)
    scale: PitConfig = field(default_factory=PitConfig)
    states: StateConfig = field(default_factory=StateConfig)
    unscored: UnscoredConfig = field(default_factory=UnscoredConfig)

    def __post_init__(self) -> None:
        for name in ("window", "every", "least", "fcfs_least", "streams", "history", "lapse"):
            if getattr(self, name) < 1:
                raise ValueError(f"monitor.{name} must be >= 1, got {getattr(self, name)}")
        if self.reference_first <= self.chart.neighbours:
            raise ValueError(
                f"monitor.reference_first must exceed chart.neighbours = {self.chart.neighbours}, "
                f"got {self.reference_first}"
            )
        if self.reference_most < self.reference_first:
            raise ValueError("monitor.reference_most must not lie below monitor.reference_first")
        if max(self.least, self.fcfs_least) > self.window:
            raise ValueError("monitor.least and monitor.fcfs_least must not exceed monitor.window")
        if not 0.0 < self.warn_arl < self.degraded_arl:
            raise ValueError("monitor.warn_arl and monitor.degraded_arl must ascend above 0")
        for name in ("recover", "fcfs_recover", "confidence"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(
                    f"monitor.{name} must lie inside (0, 1), got {getattr(self, name)}"
                )
        if not self.idle > 0.0:
            raise ValueError(f"monitor.idle must be above 0, got {self.idle}")
        if not 0.0 <= self.useful_tau < 1.0:
            raise ValueError(f"monitor.useful_tau must lie in [0, 1), got {self.useful_tau}")

    @property
    def lessons(self) -> tuple[int, ...]:
        """After how many outcomes a reference is learned, ascending."""
        at = [self.reference_first]
        while at[-1] < self.reference_most:
            at.append(min(2 * at[-1], self.reference_most))
        return tuple(at)

    @property
    def of_slices(self) -> MonitorConfig:
        """For the series of a slice: the same chart at the same rate of false alarms, in outcomes
        of its own, and cheaper looks."""
        return replace(self, every=self.slices.every, history=self.slices.history)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> MonitorConfig:
        """From nested tables as TOML gives them. Raises ``ValueError`` on keys it doesn't know."""
        config: MonitorConfig = _build(cls, values, "monitor")
        return config


_PARTS = {
    "hold": HoldConfig,
    "slices": SliceConfig,
    "chart": ChartConfig,
    "early": EarlyConfig,
    "scale": PitConfig,
    "states": StateConfig,
    "unscored": UnscoredConfig,
}


def _build(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    known = [f.name for f in fields(kind)]
    arguments: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise ValueError(f"{where}.{key} is not a setting; known are {', '.join(known)}")
        if kind is MonitorConfig and key in _PARTS:
            if not isinstance(value, Mapping):
                raise ValueError(f"{where}.{key} must be a table, got {type(value).__name__}")
            arguments[key] = _build(_PARTS[key], value, key)
        else:
            arguments[key] = tuple(value) if isinstance(value, list) else value
    return kind(**arguments)
