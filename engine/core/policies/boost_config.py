"""How the default policy is set."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Setting(StrEnum):
    """How much tail an operator lends to the mean."""

    SAFE = "safe"  #: a 3.5 % express tier, FCFS behind it
    BALANCED = "balanced"  #: a 15 % tier, shortest first behind it while all have slack
    FAST = "fast"  #: a 22 % tier, shortest first behind it until tails would grow


@dataclass(frozen=True, slots=True)
class BoostConfig:
    """Parameters of the policy.

    tier: share of all work that the requests which look shortest may hold and still go first.
    k: ``gamma = k / FCFS wait`` behind the tier; 4 is fast, 8 cautious; 0 is the limit, shortest
    first; None is FCFS.
    patience: after what share of ``Boost.slack`` a request is overdue; None: nobody ever is.
    brevity: how much a short answer counts against work, see :mod:`engine.core.policies.label`: 1
    serves the mean latency per token, 0 the mean latency; above 1 makes up for forecasts that say
    little of the very short, such as quantiles from 5 % on.
    floor: seconds, the least FCFS wait that gamma and patience are computed from.
    cold: seconds, the same while too few outcomes are known to rely on them. A first burst is all
    there before anything of it could be measured; with the floor alone it would be ordered almost
    first come, first served.
    cold_slack: seconds of slack until then. Generous: a first burst may be long, and is ordered but
    once.
    window: seconds of arrivals that the FCFS wait looks back on.
    memory: outcomes and arrivals remembered. bins, least: outcome bins at most, outcomes per bin
    at least. prior: outcomes that the forecast's own quantiles count for when averaged with a bin.
    mlfq: requests with no forecast to go by, or one of trust 0, go by attained service as in
    ``mlfq`` (skip-join, its defaults), behind the tier, and give their slots to who goes before
    them; others keep theirs.

    Raises ``ValueError`` naming the field.
    """

    tier: float
    k: float | None
    patience: float | None = None
    brevity: float = 1.0
    floor: float = 1.0
    cold: float = 20.0
    cold_slack: float = 120.0
    window: float = 1800.0
    memory: int = 8192
    bins: int = 40
    least: int = 25
    prior: float = 25.0
    mlfq: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.tier < 1.0:
            raise ValueError(f"tier must be a share of work in [0, 1), got {self.tier}")
        if self.k is not None and not self.k >= 0.0:
            raise ValueError(f"k must be at least 0, or None for FCFS, got {self.k}")
        if not self.brevity >= 0.0:
            raise ValueError(f"brevity must be at least 0, got {self.brevity}")
        for name in ("patience", "floor", "cold", "cold_slack", "window", "prior"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be above 0, got {value}")
        for name in ("memory", "bins", "least"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    @classmethod
    def of(cls, setting: Setting | str) -> BoostConfig:
        """The published settings. Raises ``ValueError`` on an unknown one."""
        if setting not in list(Setting):
            raise ValueError(f"setting must be balanced, safe or fast, got {setting!r}")
        if setting == Setting.SAFE:
            return cls(tier=0.035, k=None)
        if setting == Setting.BALANCED:
            return cls(tier=0.15, k=0.0, patience=0.8, brevity=2.0)
        return cls(tier=0.22, k=0.0, patience=1.05, brevity=2.0)
