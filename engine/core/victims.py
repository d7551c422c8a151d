"""Whose slot or memory a request may take."""

from __future__ import annotations

from collections.abc import Container, Iterator

from engine.core.lanes import LaneConfig
from engine.core.request import Request
from engine.core.state import State


def lanes(state: State) -> list[LaneConfig]:
    """Lanes in the order in which they give way: later precedence first, then the fullest."""
    if len(state.lane_configs) == 1:
        return state.lane_configs
    return sorted(state.lane_configs, key=lambda lane: _rank(state, lane), reverse=True)


def for_memory(state: State, needer: Request, spared: Container[str]) -> Iterator[Request]:
    """Running requests that may lose their blocks to ``needer``, in the order to ask them.

    Lanes of later precedence first, then those of the same that run more requests for their share
    than the needer's lane, the most first, then those behind it in its own. Within a lane the last
    in order first. The order of lanes is total, so somebody can always go on. ``spared`` ids are
    part of the step already.
    """
    mine = state.lane(needer).config
    for lane in lanes(state):
        after = state.places[needer.id] if lane.name == mine.name else None
        if after is None and _rank(state, lane) <= _rank(state, mine):
            return
        for _, request in state.running.by_lane[lane.name].backwards(after):
            if request is not needer and request.id not in spared:
                yield request


def paused(state: State, needer: Request) -> Request | None:
    """The request that loses its blocks first of those that wait with them, not ``needer``."""
    for lane in lanes(state) if len(state.paused) else ():
        for _, request in state.paused.by_lane[lane.name].backwards():
            if request is not needer:
                return request
    return None


def _rank(state: State, lane: LaneConfig) -> tuple[int, float, str]:
    load = len(state.running.by_lane[lane.name]) / lane.share
    return (lane.precedence, load, lane.name)
