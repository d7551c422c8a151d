"""The dashboard over HTTP: the page, its files, the board as JSON, and its events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from serving.dashboard.feed import Feed, FeedConfig, NoDocument
from serving.dashboard.files import PAGE, page_files

#: Where the page is.
PATH = "/drift/"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_TROUBLE = "the board could not be put together; the log of the rank server says why"


class Dashboard:
    """Routes over a document that ``read`` gives; see ``serving.dashboard.document``."""

    def __init__(
        self,
        read: Callable[[], Mapping[str, Any]],
        clock: Callable[[], float],
        config: FeedConfig | None = None,
    ) -> None:
        self.feed = Feed(read, clock, config)
        self._files = page_files()

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/", self.home),
            Route("/drift", self.home),
            Route(PATH, self.page),
            Route("/drift/assets/{name}", self.asset),
            Route("/drift/board.json", self.board),
            Route("/drift/events", self.events, methods=["GET"]),
        ]

    async def home(self, request: Request) -> Response:
        # Relative, so that it holds behind a proxy that adds a prefix.
        return RedirectResponse("drift/", 307, _SAFE)

    async def page(self, request: Request) -> Response:
        return self._file(request, PAGE)

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files or name == PAGE:
            return Response("not found\n", 404, _SAFE, "text/plain")
        return self._file(request, name)

    async def board(self, request: Request) -> Response:
        try:
            found = await self.feed.latest()
        except NoDocument:
            return JSONResponse({"error": _TROUBLE}, 503, {**_SAFE, "cache-control": "no-store"})
        return _answer(request, found.body, found.zipped, "application/json", found.etag)

    async def events(self, request: Request) -> Response:
        if self.feed.full:
            answer = {"error": "too many pages are live; close one"}
            return JSONResponse(answer, 503, {**_SAFE, "retry-after": "5"})
        headers = {**_SAFE, "cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(
            _closing(self.feed.events()), headers=headers, media_type="text/event-stream"
        )

    def _file(self, request: Request, name: str) -> Response:
        file = self._files[name]
        return _answer(request, file.body, file.zipped, file.kind, file.etag)


def _answer(request: Request, body: bytes, zipped: bytes, kind: str, etag: str) -> Response:
    """``body`` once: 304 when the browser has it already."""
    headers = {**_SAFE, "cache-control": "no-cache", "etag": etag, "vary": "accept-encoding"}
    known = request.headers.get("if-none-match", "")
    if etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Response(status_code=304, headers=headers)
    headers["content-type"] = kind
    if accepts_gzip(request):
        return Response(zipped, headers={**headers, "content-encoding": "gzip"})
    return Response(body, headers=headers)


def accepts_gzip(request: Request) -> bool:
    offers = request.headers.get("accept-encoding", "").split(",")
    return any(offer.partition(";")[0].strip() == "gzip" for offer in offers)


async def _closing(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """``events``, ended when the viewer leaves."""
    async with aclosing(events) as open_events:  # type: ignore[type-var]
        async for event in open_events:
            yield event
