"""HTTP as bare as clients get: one request a connection, which may be cut at any time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from serving.event_reader import DONE, EventReader


@dataclass(slots=True)
class Reply:
    """``events``: of a stream, parsed, without ``[DONE]``; or the one body. ``done``: whether the
    stream said that it is over."""

    status: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    done: bool = False


async def post(
    address: tuple[str, int], path: str, body: dict[str, Any], leave_after: int | None
) -> Reply:
    """Ask, and read until the server closes, or cut the connection after so many events."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: soak\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        writer.write(head.encode() + data)
        await writer.drain()
        reply = Reply()
        if leave_after == 0:
            writer.transport.abort()
            return reply
        reply.status = int((await reader.readline()).split()[1])
        while (await reader.readline()).strip():
            pass
        if not body.get("stream") or reply.status != 200:
            reply.events.append(json.loads(await reader.read()))
            return reply
        events = EventReader()
        while line := await reader.readline():
            for data in events.feed(line):
                reply.done = data == DONE
                if not reply.done:
                    reply.events.append(json.loads(data))
                if leave_after is not None and len(reply.events) >= leave_after:
                    writer.transport.abort()
                    return reply
        return reply
    finally:
        writer.close()


async def get(address: tuple[str, int], path: str) -> str:
    """The body of a page. Raises ``LookupError`` unless it is there."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: soak\r\nconnection: close\r\n\r\n".encode())
        head, _, page = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise LookupError(f"{path} is not there")
    return page.decode()
