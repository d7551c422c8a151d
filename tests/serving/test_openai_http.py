"""The OpenAI-compatible face over a real socket."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.serving.engine_parts import Front, WordBackend, serve_front
from tests.serving.parts import SECRET

TEXT = {"prompt": "one two"}
CHAT = {"messages": [{"role": "user", "content": "one two"}]}


@pytest.fixture(autouse=True)
def quiet_server(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The HTTP server logs what escapes from our handlers; nothing may."""
    yield
    escaped = [r for when in ("setup", "call") for r in caplog.get_records(when)]
    assert not [r.getMessage() for r in escaped if r.name.startswith("uvicorn") and r.levelno > 20]


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async with serve_front() as running:
        yield running


async def events(response: httpx.Response) -> list[Any]:
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line async for line in response.aiter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


async def test_a_completion_in_one_piece(front: Front) -> None:
    answer = (await front.client.post("/v1/completions", json=TEXT)).json()
    assert answer["object"] == "text_completion"
    assert answer["model"] == "tiny"
    (choice,) = answer["choices"]
    assert choice["text"] == "w0 w1 w2 "
    assert choice["finish_reason"] == "stop"
    details = {"cached_tokens": 1}
    assert answer["usage"] == {
        "prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5,
        "prompt_tokens_details": details,
    }  # fmt: skip
    scheduled = {"scored": False, "queue_seconds": 0.25, "preemptions": 0, "lane": "chat"}
    assert answer["shortfirst"] == scheduled


async def test_a_chat_in_one_piece(front: Front) -> None:
    answer = (await front.client.post("/v1/chat/completions", json=CHAT)).json()
    assert answer["object"] == "chat.completion"
    message = answer["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "w0 w1 w2 "}


async def test_a_stream_ends_with_done_and_tells_usage_when_asked(front: Front) -> None:
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    async with front.client.stream("POST", "/v1/chat/completions", json=body) as response:
        chunks = await events(response)
    deltas = [c["choices"][0]["delta"] for c in chunks[:-1]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(d.get("content", "") for d in deltas) == "w0 w1 w2 "
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 3
    assert len({c["id"] for c in chunks}) == 1


async def test_a_text_stream_without_usage(front: Front) -> None:
    body = {**TEXT, "stream": True, "max_tokens": 2}
    async with front.client.stream("POST", "/v1/completions", json=body) as response:
        chunks = await events(response)
    assert "".join(c["choices"][0]["text"] for c in chunks) == "w0 w1 "
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert not any("usage" in c for c in chunks)


async def test_defaults_and_extensions_reach_the_sampler(front: Front) -> None:
    await front.client.post("/v1/completions", json={**TEXT, "ignore_eos": True, "seed": 7})
    await front.client.post("/v1/chat/completions", json={**CHAT, "user": "acme", "top_k": 5})
    (text, _, _), (chat, _, tenant) = front.backend.submitted.values()
    assert (text.max_tokens, text.ignore_eos, text.seed) == (16, True, 7)
    assert chat.max_tokens == 64 - 3  # up to the context window
    assert (chat.top_k, tenant) == (5, "acme")


async def test_content_parts_and_the_developer_role(front: Front) -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    messages = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": parts}]
    answer = await front.client.post("/v1/chat/completions", json={"messages": messages})
    assert answer.json()["usage"]["prompt_tokens"] == 5


async def test_models(front: Front) -> None:
    (model,) = (await front.client.get("/v1/models")).json()["data"]
    assert (model["id"], model["max_model_len"]) == ("tiny", 64)
    assert (await front.client.get("/v1/models/tiny")).json() == model
    assert (await front.client.get("/v1/models/huge")).status_code == 404


async def test_a_full_queue_is_429_with_a_retry_hint(front: Front) -> None:
    front.backend.max_running = 0
    answer = await front.client.post("/v1/completions", json=TEXT)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["error"]["type"] == "rate_limit_error"


async def test_a_dead_engine_is_503(front: Front) -> None:
    front.backend.alive = False
    assert (await front.client.post("/v1/completions", json=TEXT)).status_code == 503
    assert (await front.client.get("/health")).status_code == 503


async def test_a_draining_server_is_503_and_lets_streams_end() -> None:
    async with serve_front(WordBackend(held=asyncio.Event())) as front:
        held = front.backend.held
        assert held is not None
        slow = asyncio.ensure_future(front.client.post("/v1/completions", json=TEXT))
        await front.until_running(1)
        front.gate.close()
        late = await front.client.post("/v1/completions", json=TEXT)
        assert late.status_code == 503
        assert "retry-after" in late.headers
        assert (await front.client.get("/health")).status_code == 503
        held.set()
        assert (await slow).json()["choices"][0]["text"] == "w0 w1 w2 "
        assert await front.gate.wait_empty(10)


async def test_a_stop_does_not_wait_for_a_request_that_never_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve_front() as front:
        host, _, port = front.http.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        writer.write(b"1\r\n{\r\n")
        await writer.drain()
        # Behind the other, so that it has been read.
        assert (await front.client.post("/v1/completions", json=TEXT)).status_code == 200
        front.gate.close()
        assert not front.gate.inside
        await front.stop()
        assert (await reader.read()).startswith(b"HTTP/1.1 503")
        writer.close()
    caplog.clear()  # that requests were cut off is logged, as it should be


async def test_what_a_stop_cuts_off_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    async with serve_front(WordBackend(held=asyncio.Event())) as front:
        ask = front.client.post
        stream = asyncio.ensure_future(ask("/v1/completions", json={**TEXT, "stream": True}))
        whole = asyncio.ensure_future(ask("/v1/completions", json=TEXT))
        await front.until_running(2)
        await front.stop()
        lines = [line for line in (await stream).text.splitlines() if line]
        assert "stopped" in json.loads(lines[-2].removeprefix("data: "))["error"]["message"]
        assert lines[-1] == "data: [DONE]"
        assert (await whole).status_code == 503
        assert len(front.backend.aborted) == 2
    assert not [r for r in caplog.records if r.exc_info]
    caplog.clear()  # that requests were cut off is logged, as it should be


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_hangs_up_frees_its_request(stream: bool) -> None:
    async with serve_front(WordBackend(held=asyncio.Event())) as front:
        body = {**TEXT, "stream": stream}
        asking = asyncio.ensure_future(front.client.post("/v1/completions", json=body))
        await front.until_running(1)
        asking.cancel()
        await front.until_running(0)
        assert len(front.backend.aborted) == 1
        assert await front.gate.wait_empty(10)


async def test_an_engine_that_fails_in_the_middle_says_so() -> None:
    async with serve_front(WordBackend(broken_after=1)) as front:
        whole = await front.client.post("/v1/completions", json=TEXT)
        assert whole.status_code == 500
        body = {**TEXT, "stream": True}
        async with front.client.stream("POST", "/v1/completions", json=body) as response:
            chunks = await events(response)
        assert chunks[0]["choices"][0]["text"] == "w0 "
        assert chunks[-1]["error"]["type"] == "server_error"


async def test_no_prompt_in_logs_metrics_or_errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    class Leaky(WordBackend):
        def encode(self, prompt: str) -> list[int]:
            raise KeyError(prompt)

    async with serve_front(Leaky()) as front:
        bodies: list[Any] = [
            {"prompt": SECRET},
            {"prompt": f"{SECRET} " * 70_000},
            {"prompt": SECRET, "max_tokens": SECRET},
            {SECRET[:5]: 1, "prompt": [SECRET]},
            {"prompt": SECRET, "max_tokens": -1},
        ]
        texts = [(await front.client.post("/v1/completions", json=body)).text for body in bodies]
        texts.append((await front.client.post("/v1/completions", content=SECRET)).text)
        texts.append((await front.client.get("/metrics")).text)
    assert "internal error" in texts[0]
    assert not any(SECRET in text for text in [*texts, caplog.text])


async def test_metrics_count_what_happened(front: Front) -> None:
    await front.client.post("/v1/completions", json=TEXT)
    await front.client.post("/v1/completions", json={"prompt": ""})
    page = (await front.client.get("/metrics")).text
    assert 'shortfirst_engine_requests_total{finish_reason="stop",scored="false"} 1.0' in page
    assert 'shortfirst_engine_requests_refused_total{reason="invalid"} 0.0' not in page
    assert 'shortfirst_engine_requests_refused_total{reason="invalid"} 1.0' in page
    assert "shortfirst_engine_time_to_first_token_seconds_count 1.0" in page
    assert "shortfirst_engine_inter_token_latency_seconds_count 2.0" in page
    assert "shortfirst_engine_num_requests_running 0.0" in page
