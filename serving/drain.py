"""Stopping without losing a stream: signals, a gate for new calls, a wait for those inside."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from serving.errors import Kind, RequestError


class Gate:
    """Counts calls inside; once closed lets no new one in. Belongs to one event loop."""

    def __init__(self) -> None:
        self._inside = 0
        self._closed = False
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def inside(self) -> int:
        return self._inside

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Refuse calls from now on; those inside go on."""
        self._closed = True

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The time a call spends inside. Raises UNAVAILABLE when the gate is closed."""
        if self._closed:
            raise RequestError(
                Kind.UNAVAILABLE, "the server is draining; try another one", retry_after_s=1.0
            )
        self._inside += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    async def wait_empty(self, grace_s: float) -> bool:
        """Wait until nobody is inside; false when ``grace_s`` seconds were not enough."""
        try:
            await asyncio.wait_for(self._empty.wait(), grace_s)
        except TimeoutError:
            return False
        return True


class StopSignal:
    """SIGTERM or SIGINT. The first asks for a drain, a second one ends the wait for it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def install(self) -> None:
        """Listen; to be called from the running loop of the main thread."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.receive)

    def receive(self) -> None:
        if self.asked.is_set():
            self.hurried.set()
        self.asked.set()


async def drain(gate: Gate, stop: StopSignal, grace_s: float) -> bool:
    """Close ``gate`` and wait for the calls inside; false when some were left at the end."""
    gate.close()
    empty = asyncio.ensure_future(gate.wait_empty(grace_s))
    hurried = asyncio.ensure_future(stop.hurried.wait())
    await asyncio.wait({empty, hurried}, return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if not empty.done():
        empty.cancel()
        return not gate.inside
    return empty.result()
