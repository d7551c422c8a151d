"""Lanes among each other: precedence first, then service for their share."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.fairness import VirtualCounters
from engine.core.lanes import max_min
from engine.core.line import Line


class Hierarchy:
    """Lines in ranks of one precedence; within a rank the one served least for its share leads.

    The counters are those of tenants, with a lane's share as its weight: what an idle lane leaves
    is lent to the others, and it earns no credit by that.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = tuple(lines)
        self._level = {line.lane.name: line.lane.config.precedence for line in lines}
        self._ranks: dict[int, list[Line]] = {level: [] for level in sorted(self._level.values())}
        for line in lines:
            self._ranks[line.lane.config.precedence].append(line)
        shares = {line.lane.name: line.lane.config.share for line in lines}
        self._counters = {level: VirtualCounters(shares.__getitem__) for level in self._ranks}

    def order(self, line: Line) -> tuple[int, float]:
        """Precedence and service for its share: the smaller is served first."""
        level = self._level[line.lane.name]
        return level, self._counters[level].value(line.lane.name)

    def charge(self, line: Line, service: float) -> None:
        """Count service, in weighted tokens; negative gives back."""
        self._counters[self._level[line.lane.name]].charge(line.lane.name, service)

    def returns(self, line: Line, now: float) -> None:
        """Somebody is about to wait in a line where nobody did."""
        level = self._level[line.lane.name]
        counters = self._counters[level]
        busy = (other for other in self._ranks[level] if other.head(now) is not None)
        least = min((counters.value(other.lane.name) for other in busy), default=None)
        counters.lift(line.lane.name, least)

    def left(self, line: Line) -> None:
        """Nobody waits in a line any more."""
        self._counters[self._level[line.lane.name]].left(line.lane.name)

    def bound(self, line: Line, total: int) -> int:
        """Of ``total`` places to wait, how many may be taken when one is given to this line.

        The last tenth is for lanes of the first precedence, with steps for those between: when the
        room fills up, those who matter least are refused first.
        """
        if len(self._ranks) == 1:
            return total
        behind = list(self._ranks).index(self._level[line.lane.name])
        return total - total // 10 * behind // (len(self._ranks) - 1)

    def share_of_slots(self, line: Line, total: int) -> float:
        """Slots a line is entitled to: max-min by share in its rank, of what earlier ranks leave.

        No line is entitled to more than it has waiting and running.
        """
        left = float(total)
        level = self._level[line.lane.name]
        for rank in (rank for above, rank in self._ranks.items() if above < level):
            left -= min(left, sum(len(other) + other.running for other in rank))
        rank = self._ranks[level]
        demands = [len(other) + other.running for other in rank]
        given = max_min(left, demands, [other.lane.config.share for other in rank])
        return given[rank.index(line)]
