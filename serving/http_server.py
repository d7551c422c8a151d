"""An ASGI server inside a loop that is already running, with signals left to that loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves ``app`` on ``host`` and ``port``; port 0 picks a free one."""

    def __init__(self, app: Any, host: str, port: int) -> None:
        self._host = host
        self._port = port
        config = uvicorn.Config(
            app,
            log_config=None,
            # Paths only, but a line per request is noise beside the metrics.
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        self._server = _Uvicorn(config)
        self._task: asyncio.Task[None] | None = None
        self._socket: socket.socket | None = None

    async def start(self) -> str:
        """Listen; returns ``host:port`` as bound. Raises ``OSError`` when that cannot be."""
        self._socket = listen(self._host, self._port)
        port = self._socket.getsockname()[1]
        self._task = asyncio.create_task(self._server.serve([self._socket]), name="http")
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise OSError(0, "the HTTP server did not start", f"{self._host}:{port}")
            await asyncio.sleep(0.005)
        return f"{bracketed(self._host)}:{port}"

    async def stop(self) -> None:
        """Close. To be called after the drain: what is still inside is cancelled."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task
        if self._socket is not None:
            self._socket.close()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ``OSError`` that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise OSError(error.errno, reason, f"{bracketed(host)}:{port}") from None
    return listener


def bracketed(host: str) -> str:
    """``host`` as it stands in front of a port: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host
