"""Thousands of random requests against one server, and what it keeps of them."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.native.library import Native
from engine.stats import Stats
from serving.soak.acts import Act, draw
from serving.soak.config import SoakConfig
from serving.soak.residue import Residue, resident_mib
from serving.soak.server import soaked_server

#: Requests before the first count: what is made once and kept is not a leak.
_WARM_UP, _WARM_CLIENTS = 64, 8


@dataclass(frozen=True, slots=True)
class SoakReport:
    """``results``: how often each kind of request ended how, by protocol. ``wrong``: those that
    should not be. ``leaks``: what is left, in words. ``resident_mib``: medians over the first and
    the last third of the requests. ``stop_s``: what the drain took. ``stats``: of the engine."""

    requests: int
    seconds: float
    results: dict[str, int]
    wrong: dict[str, int]
    before: Residue
    after: Residue
    leaks: list[str]
    resident_mib: tuple[float, float]
    stop_s: float
    stats: Stats

    @property
    def sound(self) -> bool:
        """Whether nothing leaked and every request ended as it should; a request may fail only
        where a step did."""
        failed = any(name.endswith(": failed") for name in self.results)
        return not (self.leaks or self.wrong) and (not failed or self.stats.failed_steps > 0)


async def soak(
    config: SoakConfig, native: Native | None = None, advance: Callable[[], None] = lambda: None
) -> SoakReport:
    """``native``: kernels that run the model. ``advance`` is told of each request that is over."""
    memory: list[float] = []

    def over() -> None:
        memory.append(resident_mib())
        advance()

    async with soaked_server(native) as server:
        warm_up = _acts(random.Random(-1 - config.seed), _WARM_UP)
        await server.play(warm_up, _WARM_CLIENTS, lambda: None)
        before = await server.settled()
        began = time.monotonic()
        acts = _acts(random.Random(config.seed), config.requests)
        counts = await server.play(acts, config.clients, over)
        seconds = time.monotonic() - began
        after = await server.settled(before)
        stats = server.backend.snapshot()
        stopping = time.monotonic()
    stop_s = time.monotonic() - stopping
    third = len(memory) // 3
    first, last = statistics.median(memory[:third]), statistics.median(memory[-third:])
    leaks = after.beyond(before)
    if last - first > config.growth_mib:
        leaks.append(f"resident memory: {first:.0f} MiB at first, {last:.0f} MiB at last")
    return SoakReport(
        requests=config.requests,
        seconds=seconds,
        results=dict(sorted(counts.items())),
        wrong={name: count for name, count in sorted(counts.items()) if "!" in name},
        before=before,
        after=after,
        leaks=leaks,
        resident_mib=(first, last),
        stop_s=stop_s,
        stats=stats,
    )


def _acts(rng: random.Random, count: int) -> Iterator[Act]:
    return (draw(rng) for _ in range(count))
