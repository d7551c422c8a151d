"""The rate that is sustained at equal latency: FastServe's measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.comparison import Spread


@dataclass(frozen=True, slots=True)
class Sustained:
    """Highest load at which a latency stays below the level, over FCFS's: mean and p99 of the
    per-token latency (FastServe's measure), and mean E2EL. capped: a policy that never passed the
    level counts with the highest load tried, so its ratio is a lower bound."""

    policy: str
    at_mean: Spread
    at_p99: Spread
    at_mean_e2el: Spread
    capped: bool


#: Latencies over the loads tried: of FCFS and of the policy.
Curves = tuple[Sequence[float], Sequence[float]]


def sustained(
    policy: str, loads: Sequence[float], level: float, seeds: Sequence[Mapping[str, Curves]]
) -> Sustained:
    """``seeds``: for each, curves of ``per_token``, ``p99_per_token`` and ``e2el``. ``level``: as
    a multiple of FCFS's latency at the lowest load."""
    capped = False
    ratios: dict[str, list[float]] = {"per_token": [], "p99_per_token": [], "e2el": []}
    for curves in seeds:
        for name, values in ratios.items():
            fcfs, own = curves[name]
            most, _ = crossing(loads, fcfs, level * fcfs[0])
            reached, above = crossing(loads, own, level * fcfs[0])
            capped = capped or above
            values.append(reached / most)
    return Sustained(
        policy,
        at_mean=Spread.of(ratios["per_token"]),
        at_p99=Spread.of(ratios["p99_per_token"]),
        at_mean_e2el=Spread.of(ratios["e2el"]),
        capped=capped,
    )


def crossing(loads: Sequence[float], values: Sequence[float], level: float) -> tuple[float, bool]:
    """The load at which a latency first passes ``level``, linear between loads, and whether it
    never does; then it is the highest load. A policy above the level from the start has the
    lowest."""
    if values[0] >= level:
        return loads[0], False
    for i in range(1, len(loads)):
        if values[i] > level:
            share = (level - values[i - 1]) / (values[i] - values[i - 1])
            return loads[i - 1] + share * (loads[i] - loads[i - 1]), False
    return loads[-1], True
