"""The load client against the engine's own front, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.event_reader import EventReader
from serving.peers.client import Ask, complete
from serving.peers.http import Address, HttpFailed, status
from serving.peers.load import drive
from tests.serving.engine_parts import WordBackend, serve_front

SECRET = "the secret prompt"


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


def _one_line(text: bytes) -> bool:
    return b"\n" not in text and b"\r" not in text


@given(
    st.lists(
        st.binary(max_size=12).filter(lambda b: b"\n" not in b and b"\r" not in b), max_size=5
    ),
    st.sampled_from([b"\n", b"\r\n"]),
    st.data(),
)
def test_events_are_the_same_however_the_stream_is_cut(events, end, data):
    stream = b": a comment" + end + end
    for event in events:
        stream += b"event: x" + end + b"data: " + event + end + end
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = EventReader()
    found = [
        event
        for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for event in reader.feed(stream[start:stop])
    ]
    assert found == events


def test_lines_of_data_are_one_event():
    assert EventReader().feed(b"data: a\ndata:b\n\ndata: c\n") == [b"a\nb"]


async def test_a_completion_is_timed_and_counted():
    times = iter(range(100))
    seen: list[int] = []
    async with serve_front(WordBackend()) as front:
        address = address_of(front.http)
        assert await status(address, "/health") == 200
        reply = await complete(
            address, "tiny", Ask("one two three", 5), "r", arrived=seen.append,
            clock=lambda: float(next(times)),
        )  # fmt: skip
    timing = reply.timing
    assert (timing.prompt_tokens, timing.output_tokens) == (3, 5)
    assert timing.arrival == 0.0
    assert timing.arrival < timing.first_token <= timing.finished
    # Five words came, each in an event; two may have shared a piece, and then a time.
    assert sum(seen) == 5
    assert len(reply.gaps) == timing.gaps == 4
    assert sum(reply.gaps) == pytest.approx(timing.finished - timing.first_token)
    assert timing.longest_gap == max(reply.gaps)
    assert timing.gap_squares == pytest.approx(sum(gap**2 for gap in reply.gaps))


async def test_no_more_than_the_concurrency_is_in_flight_and_replies_keep_their_order():
    backend = WordBackend(held=asyncio.Event())
    async with serve_front(backend) as front:
        asks = [Ask("w " * n, 2 + n) for n in range(1, 6)]
        driving = asyncio.create_task(drive(address_of(front.http), "tiny", asks, 2))
        await front.until_running(2)
        await asyncio.wait_for(front.client.get("/health"), 10)  # time to send a third
        assert len(backend.running) == 2
        backend.held.set()
        replies = await driving
    assert [reply.timing.prompt_tokens for reply in replies] == [1, 2, 3, 4, 5]
    assert [reply.timing.output_tokens for reply in replies] == [3, 4, 5, 6, 7]


async def test_a_refusal_names_the_status_and_never_the_prompt():
    async with serve_front(WordBackend()) as front:
        with pytest.raises(HttpFailed, match=r"/v1/completions answered 404") as failed:
            await complete(address_of(front.http), "another", Ask(SECRET, 2), "r")
        with pytest.raises(HttpFailed, match="answered 400") as long:
            await complete(address_of(front.http), "tiny", Ask(SECRET, 2000), "r")
    assert SECRET not in str(failed.value) + str(long.value)


@asynccontextmanager
async def serving(body: bytes):
    """A server that answers every request with ``body`` and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield Address(*server.sockets[0].getsockname())


def streamed(*events: object, length: int | None = None) -> bytes:
    body = b"".join(
        b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"
        for event in events
    )
    announced = len(body) if length is None else length
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % announced + body


TOKEN = {"choices": [{"text": "a", "finish_reason": None}]}
EMPTY = {"choices": [{"text": "", "finish_reason": None}]}
END = {"choices": [{"text": "", "finish_reason": "length"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}}
SHORT = {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 1}}


async def test_an_empty_event_is_a_token_and_the_one_that_says_why_is_none():
    async with serving(streamed(EMPTY, TOKEN, END, USAGE, b"[DONE]")) as address:
        reply = await complete(address, "m", Ask("p", 2), "r")
    assert reply.timing.gaps == 1


async def test_an_only_event_is_a_token_even_if_it_is_empty_and_the_last():
    async with serving(streamed(END, SHORT, b"[DONE]")) as address:
        reply = await complete(address, "m", Ask("p", 1), "r")
    assert (reply.timing.gaps, reply.timing.output_tokens) == (0, 1)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (streamed(TOKEN, length=9999), "broke off"),
        (b"HTTP/1.1 nonsense\r\n\r\n", "broke off"),
        (streamed(TOKEN, TOKEN, USAGE), "ended early, after 2 events"),
        (streamed(TOKEN, b"[DONE]"), "ended early, after 1 events"),
        (streamed(b"[1]"), "no JSON object"),
        (streamed({"error": {"type": "oops", "message": SECRET}}), r"with an error \(oops\)"),
        (streamed(TOKEN, SHORT, b"[DONE]"), "2 tokens were asked for and 1 came"),
    ],
    ids=["cut", "no http", "no done", "no usage", "no object", "error", "short"],
)  # fmt: skip
async def test_answers_that_are_none_are_told_apart(body, problem):
    async with serving(body) as address:
        with pytest.raises(HttpFailed, match=problem) as failed:
            await complete(address, "m", Ask("p", 2), "r")
    assert SECRET not in str(failed.value)


async def test_one_failure_ends_the_whole_drive():
    async with serving(streamed(TOKEN)) as address:
        with pytest.raises(ExceptionGroup) as failed:
            await drive(address, "m", [Ask("p", 2)] * 8, 4)
    assert failed.group_contains(HttpFailed, match="ended early")
    with pytest.raises(ValueError, match="concurrency"):
        await drive(address, "m", [], 0)
