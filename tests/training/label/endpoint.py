"""An OpenAI-compatible endpoint on a socket, whose answers are numbers made of prompt and seed."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Status, headers and body of an answer.
Reply = tuple[int, Mapping[str, str], Mapping[str, Any]]


def answer(output_tokens: int, reason: str | None = "stop", prompt_tokens: int = 3) -> Reply:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": output_tokens}
    return 200, {}, {"choices": [{"finish_reason": reason, "text": "secret"}], "usage": usage}


def error(status: int, code: str, **headers: str) -> Reply:
    return status, headers, {"error": {"message": "quotes: secret", "code": code, "type": "t"}}


def prompt_of(body: Mapping[str, Any]) -> str:
    return str(body["messages"][0]["content"] if "messages" in body else body["prompt"])


def usual(body: Mapping[str, Any]) -> Reply:
    """10 tokens a word of the prompt and up to 4 more by the seed, cut at the limit."""
    wanted = 10 * len(prompt_of(body).split()) + body["seed"] % 5
    limit = body["max_tokens"]
    return answer(min(wanted, limit), "stop" if wanted <= limit else "length")


@dataclass
class Endpoint:
    """``reply`` makes the answers; ``bodies`` are the requests, ``answered`` those that got 200."""

    url: str = ""
    reply: Callable[[Mapping[str, Any]], Reply] = usual
    models: tuple[str, ...] = ("toy",)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answered: Counter[tuple[str, int]] = field(default_factory=Counter)
    held: threading.Event = field(default_factory=threading.Event)  #: set: answers may go out
    free: int = 1 << 30  #: so many answers do not wait for ``held``
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def serving() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each body waits 40 ms for its headers' receipt

        def do_GET(self) -> None:
            if not self.path.startswith("/v1/"):
                self._send(*error(401, "locked"))
                return
            self._send(200, {}, {"data": [{"id": name} for name in endpoint.models]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body["path"] = self.path
            with endpoint.lock:
                endpoint.bodies.append(body)
                endpoint.headers.append({k.lower(): v for k, v in self.headers.items()})
                status, headers, value = endpoint.reply(body)
                endpoint.free -= 1
                waits = endpoint.free < 0
            if waits and not endpoint.held.wait(60):
                return
            with endpoint.lock:
                if not waits:
                    endpoint.answered[prompt_of(body), body.get("seed", 0)] += status == 200
            self._send(status, headers, value)

        def _send(self, status: int, headers: Mapping[str, str], value: object) -> None:
            content = json.dumps(value).encode()
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name.replace("_", "-"), text)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: object) -> None: ...  # a client was killed

    server = Server(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.held.set()
        server.shutdown()
        server.server_close()
        thread.join()
