"""One HTTP/1.1 request at a time over asyncio streams, its answer in pieces as they arrive.

h11 (which uvicorn brings) does the protocol. A full client spends several times as much on every
event of a stream, on the cores that the servers under test share with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import h11

_PIECE = 1 << 16
#: More of an error's body is not looked at.
_ERROR_BYTES = 1 << 14


class HttpFailed(RuntimeError):
    """The server refused a request, or hung up before its answer was complete."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


async def status(address: Address, path: str) -> int:
    """The status of a GET. Raises ``OSError`` when nobody listens, and ``HttpFailed``."""
    async with _answer(address, "GET", path, b"") as (code, pieces):
        async for _ in pieces:
            pass
        return code


@asynccontextmanager
async def post(
    address: Address, path: str, body: Mapping[str, Any]
) -> AsyncIterator[AsyncIterator[bytes]]:
    """POST ``body`` as JSON; the pieces of the answer as they arrive.

    Raises ``OSError`` when nobody listens and ``HttpFailed`` on any status but 200, with the type
    that the server gives its error: the message may quote the prompt.
    """
    async with _answer(address, "POST", path, json.dumps(body).encode()) as (code, pieces):
        if code != 200:
            said = b""
            async for piece in pieces:
                said += piece[: _ERROR_BYTES - len(said)]
            raise HttpFailed(f"{address}{path} answered {code} ({error_type(said)})")
        yield pieces


def error_type(body: bytes | str) -> str:
    """``error.type`` of an error as the OpenAI API writes them."""
    try:
        value = json.loads(body)
    except ValueError:
        return "no JSON"
    error = value.get("error") if isinstance(value, dict) else None
    return str(error.get("type", "no type"))[:64] if isinstance(error, dict) else "no type"


@asynccontextmanager
async def _answer(
    address: Address, method: str, path: str, body: bytes
) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        connection = h11.Connection(h11.CLIENT)
        headers = [
            ("host", str(address)),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        request = h11.Request(method=method, target=path, headers=headers)
        parts = (request, h11.Data(data=body), h11.EndOfMessage())
        writer.write(b"".join(connection.send(part) or b"" for part in parts))
        await writer.drain()
        events = _events(connection, reader, f"{address}{path}")
        async with aclosing(events) as open_events:  # type: ignore[type-var]
            head = await anext(open_events)
            assert isinstance(head, h11.Response)
            yield head.status_code, _data(open_events)
    finally:
        writer.close()


async def _data(events: AsyncIterator[h11.Event]) -> AsyncIterator[bytes]:
    async for event in events:
        if isinstance(event, h11.Data):
            yield bytes(event.data)


async def _events(
    connection: h11.Connection, reader: asyncio.StreamReader, where: str
) -> AsyncIterator[h11.Response | h11.Data]:
    """Head and body of one answer, until it is complete."""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            raise HttpFailed(f"{where}: the answer broke off ({error})") from None
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_PIECE))
        elif isinstance(event, h11.Response | h11.Data):
            yield event
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return
