"""A request chooses its lane and its priority, by either edge, and is told what came of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from shortfirst.generate.v1 import generate_pb2
from tests.serving.engine_parts import Front, serve_front

TEXT = {"prompt": "one two"}


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """Lanes ``chat``, the first, and ``batch``, which alone takes priorities."""
    async with serve_front() as running:
        yield running


async def finish(front: Front, **fields: object) -> generate_pb2.Finish:
    request = generate_pb2.GenerateRequest(prompt="one two", **fields)  # type: ignore[arg-type]
    answers = [response async for response in front.stub.Generate(request)]
    return answers[-1].finish


async def refusal(front: Front, **fields: object) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await finish(front, **fields)
    return caught.value


def placed(front: Front) -> tuple[str, int]:
    return list(front.backend.placed.values())[-1]


async def test_grpc_carries_lane_and_priority_there_and_back(front: Front) -> None:
    done = await finish(front, lane="batch", priority=-3)
    assert placed(front) == ("batch", -3)
    assert (done.lane, done.cached_tokens) == ("batch", 1)
    assert (await finish(front)).lane == "chat"
    assert placed(front) == ("", 0)


@pytest.mark.parametrize(
    ("more", "header", "expected"),
    [
        ({}, None, ("", 0)),
        ({"lane": "batch", "priority": 7}, None, ("batch", 7)),
        ({"priority": 0}, "batch", ("batch", 0)),
        ({"lane": "chat"}, "batch", ("chat", 0)),
        ({"lane": None, "priority": None}, None, ("", 0)),
    ],
)
async def test_http_takes_the_lane_from_the_body_or_the_header(
    front: Front, more: dict[str, object], header: str | None, expected: tuple[str, int]
) -> None:
    headers = {"X-Shortfirst-Lane": header} if header else {}
    answer = await front.client.post("/v1/completions", json={**TEXT, **more}, headers=headers)
    assert answer.status_code == 200
    assert placed(front) == expected
    assert answer.json()["shortfirst"]["lane"] == (expected[0] or "chat")


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"lane": "express"}, "lane"),
        ({"lane": "x" * 257}, "lane"),
        ({"priority": 1}, "priority"),
        ({"lane": "chat", "priority": -1}, "priority"),
    ],
)
async def test_both_edges_name_what_is_wrong(
    front: Front, fields: dict[str, object], name: str
) -> None:
    error = await refusal(front, **fields)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    answer = await front.client.post("/v1/completions", json={**TEXT, **fields})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == name
    assert answer.json()["error"]["message"] == error.details()
    assert front.backend.placed == {}


async def test_an_unknown_lane_is_told_which_there_are(front: Front) -> None:
    assert "chat, batch" in ((await refusal(front, lane="express")).details() or "")


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1, 1.0, "high", True])
async def test_priorities_are_integers_that_both_edges_can_carry(
    front: Front, priority: object
) -> None:
    body = {**TEXT, "lane": "batch", "priority": priority}
    answer = await front.client.post("/v1/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "priority"


@pytest.mark.parametrize(
    ("hint", "header", "nanos"), [(2.25, "3", 2_250_000_000), (None, "1", None)]
)
async def test_a_full_lane_says_when_to_come_back(
    front: Front, hint: float | None, header: str, nanos: int | None
) -> None:
    front.backend.max_running, front.backend.retry_after = 0, hint
    answer = await front.client.post("/v1/completions", json={**TEXT, "lane": "batch"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, header)
    assert "batch" in answer.json()["error"]["message"]
    error = await refusal(front, lane="batch")
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    info = error_details_pb2.RetryInfo()
    assert any(detail.Unpack(info) for detail in rpc_status.from_call(error).details)
    assert info.retry_delay.ToNanoseconds() == (nanos or 1_000_000_000)


async def test_usage_tells_cached_tokens_in_streams_too(front: Front) -> None:
    whole = (await front.client.post("/v1/completions", json=TEXT)).json()
    assert whole["usage"]["prompt_tokens_details"] == {"cached_tokens": 1}
    body = {**TEXT, "stream": True, "stream_options": {"include_usage": True}}
    streamed = (await front.client.post("/v1/completions", json=body)).text
    assert '"prompt_tokens_details":{"cached_tokens":1}' in streamed.replace(" ", "")


async def test_readings_of_one_name_are_one_metric_with_labels(front: Front) -> None:
    page = (await front.client.get("/metrics")).text
    assert page.count("# TYPE shortfirst_engine_lane_requests_total counter") == 1
    for lane in ("chat", "batch"):
        assert f'shortfirst_engine_lane_requests_total{{lane="{lane}"}} 1.0' in page
