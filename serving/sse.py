"""Server-sent events over ASGI, and noticing when the client hangs up."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from typing import Any, TypeVar

T = TypeVar("T")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: The event that ends a stream of an OpenAI-compatible server.
DONE = b"data: [DONE]\n\n"

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx would hold tokens back
]


class Disconnected(Exception):
    """The client hung up before its answer was complete."""


def event(value: Mapping[str, Any]) -> bytes:
    """One event with ``value`` as JSON."""
    return (
        b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
    )


async def send_events(events: AsyncIterator[bytes], send: Send) -> None:
    """Answer with ``events`` as they come. When this is cancelled, ``events`` is closed."""
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    async with aclosing(events) as open_events:  # type: ignore[type-var]
        async for chunk in open_events:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def unless_disconnected(work: Awaitable[T], receive: Receive) -> T:
    """The result of ``work``; cancels it and raises ``Disconnected`` when the client hangs up.

    The body must have been received before.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Disconnected
    finally:
        for task in (working, leaving):
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
