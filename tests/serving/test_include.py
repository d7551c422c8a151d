"""What a caller may ask to be told beside the answer: forecast, place in the queue, timing."""

from __future__ import annotations

import asyncio
import json

import grpc

from ranker.types import Forecast
from shortfirst.generate.v1 import generate_pb2
from tests.serving.engine_parts import Front, WordBackend, serve_front

FORECAST = Forecast(7.0, (2.0, 5.0, 9.0), "words", "3", (0.1, 0.5, 0.9))
Include = generate_pb2.Include


class Oracle:
    async def forecast(self, prompt: str, served_model: str, **_: str) -> Forecast | None:
        return FORECAST


def ask(**include: bool) -> generate_pb2.GenerateRequest:
    return generate_pb2.GenerateRequest(prompt="one two", include=Include(**include))


async def answers(front: Front, request: object) -> list[generate_pb2.GenerateResponse]:
    return [response async for response in front.stub.Generate(request)]


async def test_a_forecast_comes_before_the_first_token() -> None:
    async with serve_front(forecaster=Oracle()) as front:
        first, *rest = await answers(front, ask(forecast=True))
        assert first.WhichOneof("event") == "accepted"
        told = first.accepted
        assert (told.ranker.name, told.ranker.version, told.forecast.score) == ("words", "3", 7.0)
        assert list(told.forecast.quantiles) == [2.0, 5.0, 9.0]
        assert list(told.forecast.levels) == [0.1, 0.5, 0.9]
        assert not told.HasField("queue_position")
        assert [r.WhichOneof("event") for r in rest] == ["chunk"] * 3 + ["finish"]


async def test_an_unscored_request_is_told_that_it_has_no_forecast() -> None:
    async with serve_front() as front:
        first, *_ = await answers(front, ask(forecast=True, queue_position=True))
        assert not first.accepted.HasField("forecast")
        assert first.accepted.queue_position == 0


async def test_the_place_in_the_queue_counts_who_waits_before() -> None:
    held = asyncio.Event()
    async with serve_front(WordBackend(held=held)) as front:
        before = [front.stub.Generate(generate_pb2.GenerateRequest(prompt="x")) for _ in range(2)]
        await front.until_running(2)
        call = front.stub.Generate(ask(queue_position=True))
        assert (await call.read()).accepted.queue_position == 2
        held.set()
        while (message := await call.read()) is not grpc.aio.EOF:
            last = message
        assert last.WhichOneof("event") == "finish"
        for other in before:
            assert [r async for r in other]


async def test_timing_is_told_by_chunk_and_in_the_end() -> None:
    async with serve_front() as front:
        *chunks, last = await answers(front, ask(timing=True))
        seconds = [r.chunk.seconds for r in chunks]
        assert seconds == sorted(seconds)
        assert seconds[0] > 0.0
        timing = last.finish.timing
        assert (timing.first_token_seconds, timing.prefill_seconds) == (0.75, 0.5)
        assert (timing.decode_seconds, timing.total_seconds) == (1.0, 1.75)
        assert (timing.itl_mean_seconds, timing.itl_std_seconds) == (0.5, 0.25)
        assert (timing.itl_p99_seconds, timing.itl_max_seconds) == (0.75, 0.75)
        assert dict(timing.stall_seconds) == {"prefill": 0.25}


async def test_nothing_is_told_unasked() -> None:
    async with serve_front(forecaster=Oracle()) as front:
        *chunks, last = await answers(front, generate_pb2.GenerateRequest(prompt="one two"))
        assert [r.WhichOneof("event") for r in chunks] == ["chunk"] * 3
        assert not any(r.chunk.HasField("seconds") for r in chunks)
        assert not last.finish.HasField("timing")


async def test_a_cancel_right_after_the_first_event_frees_the_request() -> None:
    async with serve_front(WordBackend(held=asyncio.Event())) as front:
        call = front.stub.Generate(ask(queue_position=True))
        await call.read()
        call.cancel()
        await front.until_running(0)
        assert call.cancelled()
        assert await call.code() is grpc.StatusCode.CANCELLED


async def test_over_http_a_stream_tells_first_and_with_each_chunk() -> None:
    wanted = {"forecast": True, "queue_position": True, "timing": True}
    body = {"prompt": "one two", "stream": True, "shortfirst": wanted}
    async with serve_front(forecaster=Oracle()) as front:
        text = (await front.client.post("/v1/completions", json=body)).text
    first, *chunks, last = [
        json.loads(line.removeprefix("data: "))
        for line in text.splitlines()
        if line and line != "data: [DONE]"
    ]
    assert first["choices"] == []
    assert first["shortfirst"]["queue_position"] == 0
    assert first["shortfirst"]["forecast"] == {
        "ranker": "words", "version": "3", "score": 7.0,
        "levels": [0.1, 0.5, 0.9], "quantiles": [2.0, 5.0, 9.0],
    }  # fmt: skip
    seconds = [chunk["shortfirst"]["seconds"] for chunk in chunks]
    assert len(seconds) == 3
    assert seconds == sorted(seconds)
    timing = last["shortfirst"]["timing"]
    assert (timing["first_token_seconds"], timing["itl_p99_seconds"]) == (0.75, 0.75)
    assert timing["stall_seconds"] == {"prefill": 0.25}
    assert last["shortfirst"]["scored"] is True


async def test_over_http_an_answer_in_one_piece_tells_it_all_at_once() -> None:
    messages = [{"role": "user", "content": "one"}]
    body = {"messages": messages, "shortfirst": {"forecast": True, "timing": True}}
    async with serve_front() as front:
        told = (await front.client.post("/v1/chat/completions", json=body)).json()["shortfirst"]
        assert told["forecast"] is None  # asked for, and there is none
        assert told["timing"]["decode_seconds"] == 1.0
        assert "queue_position" not in told
        wrong = body | {"shortfirst": {"forcast": True}}
        answer = await front.client.post("/v1/chat/completions", json=wrong)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "shortfirst.forcast")
