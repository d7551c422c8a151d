"""A receiver of webhooks that really listens, and entries to tell it of."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import pytest

from drift.entry import MONITOR, Entry


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """``answers``: (status, headers) of the requests to come; 200 when there are none left. With
    ``gate`` cleared, requests wait before they are answered."""

    url: str
    requests: Queue[Request] = field(default_factory=Queue)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    def next(self) -> Request:
        return self.requests.get(timeout=60)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.requests.put(Request(self.path, dict(self.headers.items()), body))
            made.gate.wait(60)
            status, headers = made.answers.pop(0) if made.answers else (200, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"said so" if status != 200 else b"ok")

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Receiver(f"http://127.0.0.1:{server.server_port}/hook/geheim")
    made.gate.set()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.gate.set()
    server.shutdown()
    thread.join()
    server.server_close()


def make_entry(before: str, after: str, at: float = 1_700_000_000.0, **others: Any) -> Entry:
    fields: dict[str, Any] = {
        "kind": "state",
        "actor": MONITOR,
        "served_model": "llama <3>",
        "ranker": "length-ranker",
        "version": "7",
        "reasons": ("tau-b 0.10 [0.02, 0.18] is below its reference & falls",),
        "advice": "retrain",
        "message": "llama: ok -> degraded",
        "details": {"tau": 0.1, "tau_low": 0.02, "tau_high": 0.18, "reference_tau": 0.4},
    }
    return Entry(at=at, before=before, after=after, **{**fields, **others})


@pytest.fixture
def entry():
    return make_entry


@pytest.fixture
def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
