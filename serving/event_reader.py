"""Server-sent events as they arrive in pieces: the reading side of :mod:`serving.sse`."""

from __future__ import annotations

#: The data of the last event of a stream of an OpenAI-compatible server.
DONE = b"[DONE]"


class EventReader:
    """Collects the ``data`` of events out of a byte stream that is cut anywhere.

    Reads what OpenAI-compatible servers send: lines that end in LF or CRLF, events that end in an
    empty line. Comments and other fields are skipped (WHATWG HTML, 9.2.6).
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The events that ``piece`` completes."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        events: list[bytes] = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events
