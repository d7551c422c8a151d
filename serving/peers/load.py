"""A closed loop of clients: so many requests in flight until all are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from serving.peers.client import Ask, Reply, complete
from serving.peers.http import Address


async def drive(
    address: Address,
    model: str,
    asks: Sequence[Ask],
    concurrency: int,
    *,
    arrived: Callable[[int], None] = lambda events: None,
) -> list[Reply]:
    """Answer all ``asks`` with at most ``concurrency`` in flight; replies in their order.

    Raises an exception group of ``HttpFailed`` and ``OSError`` from those that fail first; the
    others are cancelled.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, got {concurrency}")
    waiting = iter(list(enumerate(asks)))
    replies: dict[int, Reply] = {}

    async def client() -> None:
        for number, ask in waiting:
            replies[number] = await complete(
                address, model, ask, f"request {number}", arrived=arrived
            )

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(asks))):
            group.create_task(client())
    return [replies[number] for number in range(len(asks))]
