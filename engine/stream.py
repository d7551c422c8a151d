"""Events from the engine's thread to the event loops that wait for them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from engine.events import Ended, Event


class Stream:
    """Events of one request, for one task of the loop it was made in; ends after ``Ended``."""

    def __init__(self, request_id: str, loop: asyncio.AbstractEventLoop) -> None:
        self.request_id = request_id
        self.loop = loop
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        self._over = False

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Event:
        if self._over:
            raise StopAsyncIteration
        event = await self._queue.get()
        self._over = isinstance(event, Ended)
        return event

    def put(self, event: Event) -> None:
        """To be called in the stream's own loop."""
        self._queue.put_nowait(event)


Delivery = tuple[Stream, Event]


def deliver(events: Iterable[Delivery]) -> list[Stream]:
    """Hand events over from any thread, waking each loop once; streams whose loop is closed."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Delivery]] = defaultdict(list)
    for stream, event in events:
        by_loop[stream.loop].append((stream, event))
    lost: list[Stream] = []
    for loop, batch in by_loop.items():
        try:
            loop.call_soon_threadsafe(_put_all, batch)
        except RuntimeError:
            lost += [stream for stream, _ in batch]
    return lost


def _put_all(batch: Sequence[Delivery]) -> None:
    for stream, event in batch:
        stream.put(event)
