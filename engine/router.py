"""Which of several replicas a request goes to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.core.request import Request
from engine.replica import Replica


class Router(Protocol):
    """``looks``: whether replicas must be brought up to the arrival before it chooses."""

    name: str
    looks: bool

    def choose(self, request: Request, replicas: Sequence[Replica]) -> int:
        """Index of the replica that gets it."""
        ...


class RoundRobin:
    """Each in turn, whatever their load."""

    name = "round_robin"
    looks = False

    def __init__(self) -> None:
        self._next = 0

    def choose(self, request: Request, replicas: Sequence[Replica]) -> int:
        chosen = self._next % len(replicas)
        self._next = chosen + 1
        return chosen


class LeastOutstanding:
    """The one with the fewest requests that have not ended; equals take turns."""

    name = "least_outstanding"
    looks = True

    def __init__(self) -> None:
        self._last = -1

    def choose(self, request: Request, replicas: Sequence[Replica]) -> int:
        self._last = _least([replica.outstanding for replica in replicas], self._last)
        return self._last


class LeastPredicted:
    """The one with the least predicted work: tokens still to prefill and to generate, as far as
    forecasts tell, each at what it costs. Those with a slot free go first: a long answer keeps one
    slot, and nobody waiting who finds another."""

    name = "least_predicted"
    looks = True

    def __init__(self) -> None:
        self._last = -1

    def choose(self, request: Request, replicas: Sequence[Replica]) -> int:
        loads = [
            (replica.outstanding >= replica.config.max_num_seqs, replica.predicted_work)
            for replica in replicas
        ]
        self._last = _least(loads, self._last)
        return self._last


class PrefixAffine:
    """Where a request's beginning was computed before, unless that one has too much to do.

    Hashes of 1, 2, 4, 8 … blocks are remembered; the longest that is known decides, so that a
    system prompt which all share does not. Falls back to the least outstanding for an unknown
    beginning, or when the replica found has more than ``slack`` requests and more than ``ratio``
    times as many as the least loaded: SGLang's cache-aware router does so, with these defaults,
    when the most loaded replica has. ``memory``: hashes remembered, oldest forgotten first.
    """

    name = "prefix_affine"
    looks = True

    def __init__(self, slack: int = 64, ratio: float = 1.5, memory: int = 1 << 20) -> None:
        if slack < 0 or not ratio >= 1.0 or memory < 1:
            raise ValueError(
                f"slack must be >= 0, ratio >= 1 and memory >= 1, got {slack}, {ratio}, {memory}"
            )
        self._slack = slack
        self._ratio = ratio
        self._memory = memory
        self._homes: OrderedDict[int, int] = OrderedDict()
        self._fallback = LeastOutstanding()

    def choose(self, request: Request, replicas: Sequence[Replica]) -> int:
        hashes = _beginnings(request)
        home = next((self._homes[h] for h in reversed(hashes) if h in self._homes), None)
        if home is None or home >= len(replicas) or self._overloaded(home, replicas):
            home = self._fallback.choose(request, replicas)
        for name in hashes:
            self._homes[name] = home
            self._homes.move_to_end(name)
        while len(self._homes) > self._memory:
            self._homes.popitem(last=False)
        return home

    def _overloaded(self, home: int, replicas: Sequence[Replica]) -> bool:
        load = replicas[home].outstanding
        least = min(replica.outstanding for replica in replicas)
        return load - least > self._slack and load > self._ratio * least


_ROUTERS: dict[str, Callable[[], Router]] = {
    router.name: router for router in (RoundRobin, LeastOutstanding, LeastPredicted, PrefixAffine)
}
#: Every router that :func:`make_router` knows.
ROUTERS: tuple[str, ...] = tuple(_ROUTERS)


def make_router(name: str) -> Router:
    """Raises ``ValueError`` listing the routers there are."""
    if name not in _ROUTERS:
        raise ValueError(f"router must be one of {', '.join(ROUTERS)}, got {name!r}")
    return _ROUTERS[name]()


def _least(loads: Sequence[float] | Sequence[tuple[bool, float]], last: int) -> int:
    """The least loaded; of equals the first after ``last``."""
    count = len(loads)
    return min(range(count), key=lambda i: (loads[i], (i - last - 1) % count))


def _beginnings(request: Request) -> list[int]:
    """Hashes of the first 1, 2, 4, 8 … full blocks of the prompt, as far as they are known."""
    found, blocks = [], 1
    while blocks <= len(request.block_hashes):
        found.append(request.block_hashes[blocks - 1])
        blocks *= 2
    return found
