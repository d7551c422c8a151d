"""The dashboard and the metrics over a real socket: what is served, how, and what is not."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter

from serving.dashboard.feed import FeedConfig
from serving.dashboard.files import page_files
from serving.dashboard.routes import Dashboard
from serving.http_server import HttpServer
from serving.rank_http import rank_app


@asynccontextmanager
async def site(
    read: Callable[[], dict[str, Any]] | None, config: FeedConfig | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    registry = CollectorRegistry()
    Counter("shortfirst_things", "Things.", registry=registry).inc(3)
    Counter("shortfirst_others", "Others.", registry=registry)
    dashboard = Dashboard(read, time.monotonic, config) if read is not None else None
    server = HttpServer(rank_app(registry, dashboard), "127.0.0.1", 0)
    address = await server.start()
    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=30) as client:
        yield client
    if dashboard is not None:
        dashboard.feed.close()
    await server.stop()


def board() -> dict[str, Any]:
    return {"schema": 1, "at": 5.0, "models": [], "name": "</script><script>alert(1)</script>"}


def broken() -> dict[str, Any]:
    raise OSError(5, "Input/output error")


async def test_every_answer_of_the_page_is_locked_down_and_loads_its_own_files_alone() -> None:
    async with site(board) as client:
        page = await client.get("/drift/")
        wanted = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
        assert "assets/main.js" in wanted
        for path in wanted:
            assert not re.match(r"(?:[a-z]+:)?//", path), path
            answer = await client.get(f"/drift/{path}")
            assert answer.status_code == 200, path
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "*" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert "<style" not in page.text
        assert not re.search(r"<script(?![^>]*src=)", page.text)
        assert not re.search(r"\son\w+=|\sstyle=", page.text)


def test_no_file_of_the_page_names_another_host_or_makes_markup_from_text() -> None:
    for name, file in page_files().items():
        text = file.body.decode()
        hosts = set(re.findall(r"https?://[^\s\"'/]+", text))
        assert hosts <= {"http://www.w3.org"}, name  # a name space, not an address
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(", text
        ), name
        for other in re.findall(r'from "\./([^"]+)"', text):
            assert other in page_files(), f"{name} imports {other}"


@pytest.mark.parametrize("path", ["/", "/drift"])
async def test_the_way_there(path: str) -> None:
    async with site(board) as client:
        answer = await client.get(path, follow_redirects=True)
        assert answer.url.path == "/drift/"
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert (await client.head("/drift/")).status_code == 200
        assert (await client.post("/drift/")).status_code == 405


@pytest.mark.parametrize(
    "path",
    ["nothing.js", "index.html", "..%2Ffeed.py", "%2e%2e/feed.py", "../feed.py", "__init__.py", ""],
)
async def test_nothing_else_can_be_had(path: str) -> None:
    async with site(board) as client:
        answer = await client.get(f"/drift/assets/{path}")
        assert answer.status_code == 404
        assert "import" not in answer.text


async def test_the_board_comes_once() -> None:
    async with site(board) as client:
        first = await client.get("/drift/board.json")
        assert first.headers["content-type"] == "application/json"
        assert first.headers["content-encoding"] == "gzip"
        assert first.json() == board()
        plain = await client.get("/drift/board.json", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.json() == board()
        tag = {"if-none-match": f'"other", W/{first.headers["etag"]}'}
        again = await client.get("/drift/board.json", headers=tag)
        assert (again.status_code, again.content) == (304, b"")


async def test_a_board_that_cannot_be_had_says_so_without_saying_why() -> None:
    async with site(broken) as client:
        answer = await client.get("/drift/board.json")
        assert answer.status_code == 503
        assert "log" in answer.json()["error"]
        assert "Input/output" not in answer.text
        assert (await client.get("/drift/")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200


async def test_events_come_and_one_page_too_many_is_told() -> None:
    async with site(board, FeedConfig(every=0.05, viewers=1)) as client:
        async with client.stream("GET", "/drift/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.aiter_lines()
            assert await anext(lines) == "event: board"
            told = json.loads((await anext(lines)).removeprefix("data: "))
            assert told["etag"] == (await client.get("/drift/board.json")).headers["etag"]
            refused = await client.get("/drift/events")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        async with asyncio.timeout(20):  # its place is free once it has left
            while (await _status(client)) != 200:
                await asyncio.sleep(0)


async def _status(client: httpx.AsyncClient) -> int:
    async with client.stream("GET", "/drift/events") as stream:
        return stream.status_code


async def test_metrics_are_what_prometheus_asks_for() -> None:
    async with site(None) as client:
        plain = await client.get("/metrics", headers={"accept-encoding": "identity"})
        assert plain.headers["content-type"].startswith("text/plain")
        assert "shortfirst_things_total 3.0" in plain.text
        kind = {"accept": "application/openmetrics-text; version=1.0.0"}
        modern = await client.get("/metrics", headers=kind)
        assert modern.headers["content-type"].startswith("application/openmetrics-text")
        assert modern.headers["content-encoding"] == "gzip"
        assert modern.text.endswith("# EOF\n")
        some = await client.get("/metrics", params={"name[]": "shortfirst_things_total"})
        assert "shortfirst_things_total" in some.text
        assert "shortfirst_others" not in some.text
        assert (await client.get("/drift/")).status_code == 404
