"""One reading for all pages: shared, paced, said to have failed, ended at the stop."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import threading

import pytest

from serving.dashboard.feed import Document, Feed, FeedConfig, NoDocument


class Source:
    """Counts its readings; each takes ``cost`` seconds of its clock."""

    def __init__(self, cost: float = 0.0) -> None:
        self.now = 100.0
        self.cost = cost
        self.reads = 0
        self.broken = False
        self.together = 0
        self._inside = threading.Semaphore(1)

    def __call__(self) -> dict[str, object]:
        if not self._inside.acquire(blocking=False):
            self.together += 1
        self.reads += 1
        self.now += self.cost
        self._inside.release()
        if self.broken:
            raise OSError(5, "Input/output error")
        return {"at": self.now, "value": self.reads // 3}

    def clock(self) -> float:
        return self.now


async def test_pages_share_a_reading_and_a_new_one_comes_when_it_is_old() -> None:
    source = Source()
    feed = Feed(source, source.clock, FeedConfig(every=2.0))
    found = await asyncio.gather(*(feed.latest() for _ in range(20)))
    assert (source.reads, source.together) == (1, 0)
    assert len({id(document) for document in found}) == 1
    source.now += 2.0
    await feed.latest()
    assert source.reads == 2


async def test_who_leaves_in_mid_reading_makes_nobody_read_beside_it() -> None:
    source, entered, go = Source(), threading.Event(), threading.Event()

    def read() -> dict[str, object]:
        entered.set()
        go.wait(60)
        return source()

    feed = Feed(read, source.clock)
    first = asyncio.create_task(feed.latest())
    await asyncio.to_thread(entered.wait, 60)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    others = [asyncio.create_task(feed.latest()) for _ in range(3)]
    await asyncio.sleep(0)
    go.set()
    found = await asyncio.gather(*others)
    assert source.reads == 1
    assert len({id(document) for document in found}) == 1


async def test_viewers_who_come_at_once_are_as_many_as_there_are_places() -> None:
    source = Source()
    feed = Feed(source, source.clock, FeedConfig(every=60.0, viewers=2))
    streams = [feed.events() for _ in range(5)]
    told = await asyncio.gather(*(anext(stream, None) for stream in streams))
    assert [event is not None for event in told] == [True, True, False, False, False]
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]
    assert not feed.full


async def test_a_board_that_takes_long_is_read_less_often() -> None:
    source = Source(cost=3.0)
    feed = Feed(source, source.clock, FeedConfig(every=1.0, share=0.1))
    await feed.latest()
    for _ in range(26):
        source.now += 1.0
        await feed.latest()
    assert source.reads == 1
    source.now += 1.0
    await feed.latest()
    assert source.reads == 2


def test_the_tag_is_the_same_while_only_time_passes() -> None:
    first, later = Document.of({"at": 1.0, "x": [1]}), Document.of({"at": 2.0, "x": [1]})
    assert first.etag == later.etag
    assert first.body != later.body
    assert Document.of({"at": 1.0, "x": [2]}).etag != first.etag
    assert gzip.decompress(first.zipped) == first.body
    assert json.loads(Document.of({"at": 1.0, "name": "\ud800 lone"}).body)["name"] == "? lone"
    with pytest.raises(ValueError, match="Out of range"):
        Document.of({"at": 1.0, "x": float("nan")})


async def test_a_reading_that_fails_is_said_once_and_mends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source()
    feed = Feed(source, source.clock, FeedConfig(every=2.0))
    source.broken = True
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            source.now += 2.0
            with pytest.raises(NoDocument):
                await feed.latest()
    assert len(caplog.records) == 1
    events = feed.events()
    assert await anext(events) == b"event: trouble\ndata: {}\n\n"
    await events.aclose()  # type: ignore[attr-defined]
    source.broken = False
    source.now += 2.0
    assert (await feed.latest()).at == source.now


async def test_events_say_that_a_board_was_read_until_the_server_stops() -> None:
    source = Source()
    feed = Feed(source, source.clock, FeedConfig(every=0.01, viewers=1))
    told: list[bytes] = []

    async def watch() -> None:
        async for event in feed.events():
            told.append(event)
            source.now += 1.0

    watching = asyncio.create_task(watch())
    async with asyncio.timeout(20):
        while len(told) < 4:
            assert feed.full or not told
            await asyncio.sleep(0)
        feed.close()
        await watching
    assert not feed.full
    values = [json.loads(event.removeprefix(b"event: board\ndata: ")) for event in told]
    assert values[0]["etag"] == values[1]["etag"] != values[3]["etag"]
    assert values[0]["at"] < values[1]["at"]
    assert all(value["every"] >= 0.01 for value in values)


@pytest.mark.parametrize(
    ("change", "field"),
    [({"every": 0.0}, "every"), ({"every": float("inf")}, "every"), ({"share": 0.0}, "share"),
     ({"share": 1.5}, "share"), ({"viewers": 0}, "viewers")],
)  # fmt: skip
def test_a_bad_setting_is_named(change: dict[str, float], field: str) -> None:
    with pytest.raises(ValueError, match=rf"feed\.{field}"):
        FeedConfig(**change)  # type: ignore[arg-type]
