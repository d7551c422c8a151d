"""What the order of a cohort's forecasts is worth: replayed through the scheduler that serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.efficiency import (
    SMALL_COST,
    SMALL_ENGINE,
    Efficiency,
    from_outcomes,
    sjf_efficiency,
)
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """The engine on which cohorts are replayed, and how busy it is.

    ``utilisation`` scales the gaps between arrivals: at 2 they bring twice the work that the engine
    can do, a burst. Near 1 the queue is short and mere luck decides (values between -1.3 and 1 for
    like cohorts of 500). ``least``: outcomes below which a replay says nothing.
    """

    cost: CostModel = SMALL_COST
    scheduler: SchedulerConfig = SMALL_ENGINE
    utilisation: float = 2.0
    least: int = 100

    def __post_init__(self) -> None:
        if self.utilisation <= 0.0:
            raise ValueError(f"replay.utilisation must be above 0, got {self.utilisation}")
        if self.least < 2:
            raise ValueError(f"replay.least must be >= 2, got {self.least}")


def efficiency(
    outcomes: Sequence[Outcome], config: ReplayConfig | None = None
) -> Efficiency | None:
    """SJF efficiency of ``outcomes``; ``None`` with too few. Unscored ones go in order of arrival.

    Requests that could never fit the replayed engine are left out. Deterministic; about 0.1 s
    for 500 outcomes.
    """
    config = config or ReplayConfig()
    batch = config.scheduler.max_num_seqs
    fits = [o for o in outcomes if o.prompt_tokens + o.output_tokens < config.scheduler.capacity]
    requests = from_outcomes(fits, config.cost, batch, config.utilisation)
    if len(requests) < config.least:
        return None
    return sjf_efficiency(requests, config.scheduler, config.cost)
