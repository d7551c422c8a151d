"""The rank service over real sockets: answers, every kind of bad request, load, drain."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass, replace

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from ranker.length_ranker import POOLED
from serving.batcher import BatcherConfig
from serving.drain import Gate, StopSignal, drain
from serving.interceptors import Guard, methods
from serving.rankers import Rankers
from shortfirst.rank.v1 import rank_pb2
from tests.serving.parts import SECRET, RankServer, WordRanker, fields, refused, serve_rank

Code = grpc.StatusCode


def request(*prompts: str, model: str = "") -> rank_pb2.RankRequest:
    items = [rank_pb2.RankItem(id=f"i{n}", prompt=text) for n, text in enumerate(prompts)]
    return rank_pb2.RankRequest(served_model=model, items=items)


async def test_forecasts_come_in_order_with_ids_and_version(rank: RankServer) -> None:
    answer = await rank.stub.Rank(request("one", "one two three", "one two"))
    assert [f.id for f in answer.forecasts] == ["i0", "i1", "i2"]
    assert [f.score for f in answer.forecasts] == [1.0, 3.0, 2.0]
    assert list(answer.forecasts[1].quantiles) == [1.5, 3.0, 4.5]
    assert (answer.ranker.name, answer.ranker.version) == ("words", "1")
    assert answer.served_model == "sharegpt"


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (rank_pb2.RankRequest(), "items"),
        (request(*["x"] * 257), "items"),
        (request("fine", ""), "items[1].prompt"),
        (request(SECRET * 60_000), "items[0].prompt"),
        (rank_pb2.RankRequest(items=[rank_pb2.RankItem(prompt="x")]), "items[0].id"),
        (rank_pb2.RankRequest(items=[rank_pb2.RankItem(id="a" * 257, prompt="x")]), "items[0].id"),
        (rank_pb2.RankRequest(items=[rank_pb2.RankItem(id="a", prompt="x")] * 2), "items[1].id"),
        (rank_pb2.RankRequest(tenant="t" * 257), "tenant"),
        (rank_pb2.RankRequest(lane="l" * 257), "lane"),
    ],
)
async def test_a_bad_item_names_its_field(
    rank: RankServer, bad: rank_pb2.RankRequest, field: str
) -> None:
    error = await refused(rank.stub.Rank(bad))
    assert error.code() is Code.INVALID_ARGUMENT
    assert fields(error) == [field]
    assert field in error.details()


async def test_an_unknown_model_is_not_found_and_the_known_ones_are_named(rank: RankServer) -> None:
    error = await refused(rank.stub.Rank(request("x", model="gpt-17")))
    assert error.code() is Code.NOT_FOUND
    assert fields(error) == ["served_model"]
    assert "sharegpt" in error.details()


@dataclass
class PooledRanker(WordRanker):
    """Knows the model ``seen`` apart from all others."""

    served_model: str = POOLED
    name: str = "pooled-words"

    def knows(self, served_model: str) -> bool:
        return served_model == "seen"

    def serving(self, served_model: str) -> PooledRanker:
        return replace(self, served_model=served_model)


async def test_a_pooled_ranker_stands_in_and_the_answer_says_so(rank: RankServer) -> None:
    rank.rankers.replace(PooledRanker())
    own = await rank.stub.Rank(request("a b"))
    unknown = await rank.stub.Rank(request("a b", "c", model="gpt-17"))
    known = await rank.stub.Rank(request("a b", model="seen"))
    asked_for = await rank.stub.Rank(request("a b", model=POOLED))
    assert [a.fallback for a in (own, unknown, known, asked_for)] == [False, True, False, False]
    assert (own.ranker.name, unknown.ranker.name) == ("words", "pooled-words")
    assert (unknown.served_model, known.served_model) == ("gpt-17", "seen")
    assert rank.fallbacks == [2]


async def test_a_plain_ranker_can_be_the_pooled_one(rank: RankServer) -> None:
    rank.rankers.replace(WordRanker(POOLED))
    assert (await rank.stub.Rank(request("a", model="gpt-17"))).fallback


def test_calls_for_one_model_share_a_pooled_ranker_until_it_is_replaced() -> None:
    rankers = Rankers({POOLED: PooledRanker(version="1")})
    first = rankers.of("seen").ranker
    assert rankers.of("seen").ranker is first
    assert rankers.of("gpt-17").ranker is rankers.of("gpt-18").ranker
    rankers.replace(PooledRanker(version="2"))
    assert rankers.of("seen").ranker.version == "2"


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"\x0a\x02\xff\xfe", "served_model"),
        (b"\x12\x05\x0a\x01a\x12\x00\x12\x07\x0a\x01b\x12\x02\xc3\x28", "items[1].prompt"),
    ],
)
async def test_text_that_is_not_utf8_names_its_field(
    rank: RankServer, raw: bytes, field: str
) -> None:
    call = rank.channel.unary_unary("/shortfirst.rank.v1.RankService/Rank")
    error = await refused(call(raw))
    assert error.code() is Code.INVALID_ARGUMENT
    assert fields(error) == [field]


async def test_bytes_that_are_no_message_are_refused(rank: RankServer) -> None:
    call = rank.channel.unary_unary("/shortfirst.rank.v1.RankService/Rank")
    error = await refused(call(b"\xff\xff\xff\xff"))
    assert error.code() is Code.INVALID_ARGUMENT
    assert (await rank.stub.Rank(request("still there"))).forecasts


async def test_ten_megabytes_are_refused_before_they_are_parsed(rank: RankServer) -> None:
    error = await refused(rank.stub.Rank(request("x" * 10_000_000)))
    assert error.code() is Code.RESOURCE_EXHAUSTED
    assert rank.calls == []


async def test_a_deadline_that_passed_on_the_way_is_not_worked_for(rank: RankServer) -> None:
    await rank.stub.Rank(request("connects"))
    call = rank.stub.Rank(request("x"), timeout=0.02)
    await asyncio.sleep(0)
    time.sleep(0.05)  # server and client share this loop: the deadline passes before either runs
    error = await refused(call)
    assert error.code() is Code.DEADLINE_EXCEEDED
    await rank.stub.Rank(request("after"))
    assert rank.ranker.batches == [1, 1]


async def test_the_guard_answers_a_past_deadline_itself() -> None:
    class Context:
        code: Code | None = None

        def time_remaining(self) -> float:
            return 0.0

        async def abort(self, code: Code, details: str, metadata: object) -> None:
            self.code = code
            raise grpc.aio.AbortError

    async def never(request: object, context: object) -> None:
        raise AssertionError("must not be called")

    service = rank_pb2.DESCRIPTOR.services_by_name["RankService"]
    method = "/shortfirst.rank.v1.RankService/Rank"

    class Details:
        pass

    details = Details()
    details.method = method  # type: ignore[attr-defined]

    async def continuation(_: object) -> object:
        return grpc.unary_unary_rpc_method_handler(never, rank_pb2.RankRequest.FromString)

    guard = Guard(methods(service), Gate())
    handler = await guard.intercept_service(continuation, details)
    context = Context()
    with pytest.raises(grpc.aio.AbortError):
        await handler.unary_unary(request("x"), context)
    assert context.code is Code.DEADLINE_EXCEEDED


async def test_a_prompt_that_breaks_the_ranker_breaks_one_call_and_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serve_rank(WordRanker(gate=threading.Event())) as rank:
        # The first call occupies the thread, so that the next two share a batch.
        first = asyncio.ensure_future(rank.stub.Rank(request("first")))
        await asyncio.to_thread(rank.ranker.started.wait, 10)
        bad = asyncio.ensure_future(rank.stub.Rank(request(f"poison {SECRET}")))
        good = asyncio.ensure_future(rank.stub.Rank(request("good one")))
        while rank.gate.inside < 3:
            await asyncio.sleep(0)
        rank.ranker.gate.set()  # type: ignore[union-attr]
        error = await refused(bad)
        assert error.code() is Code.INTERNAL
        assert (await good).forecasts[0].score == 2.0
        assert (await first).forecasts[0].score == 1.0
    assert "KeyError" in caplog.text
    assert SECRET not in caplog.text


async def test_calls_that_wait_together_are_forecast_together() -> None:
    patient = BatcherConfig(batch_s=60.0)
    async with serve_rank(WordRanker(gate=threading.Event()), batching=patient) as rank:
        first = asyncio.ensure_future(rank.stub.Rank(request("first")))
        await asyncio.to_thread(rank.ranker.started.wait, 10)
        rest = [asyncio.ensure_future(rank.stub.Rank(request("a b", "c"))) for _ in range(20)]
        while rank.gate.inside < 21:
            await asyncio.sleep(0)
        rank.ranker.gate.set()  # type: ignore[union-attr]
        answers = await asyncio.gather(first, *rest)
        assert [[f.score for f in a.forecasts] for a in answers[1:]] == [[2.0, 1.0]] * 20
        assert rank.ranker.batches == [1, 40]


async def test_too_many_waiting_prompts_are_refused_with_a_retry_hint() -> None:
    batching = BatcherConfig(max_batch=2, max_waiting=2)
    async with serve_rank(WordRanker(gate=threading.Event()), batching=batching) as rank:
        first = asyncio.ensure_future(rank.stub.Rank(request("first")))
        await asyncio.to_thread(rank.ranker.started.wait, 10)
        second = asyncio.ensure_future(rank.stub.Rank(request("a", "b")))
        while rank.gate.inside < 2:
            await asyncio.sleep(0)
        error = await refused(rank.stub.Rank(request("one too many")))
        assert error.code() is Code.RESOURCE_EXHAUSTED
        status = rpc_status.from_call(error)
        assert status is not None
        assert status.details[0].Is(error_details_pb2.RetryInfo.DESCRIPTOR)
        rank.ranker.gate.set()  # type: ignore[union-attr]
        await asyncio.gather(first, second)


async def test_a_call_whose_client_left_is_not_forecast() -> None:
    async with serve_rank(WordRanker(gate=threading.Event())) as rank:
        first = asyncio.ensure_future(rank.stub.Rank(request("first")))
        await asyncio.to_thread(rank.ranker.started.wait, 10)
        left = rank.stub.Rank(request("a b c"))
        while rank.gate.inside < 2:
            await asyncio.sleep(0)
        left.cancel()
        while rank.gate.inside > 1:
            await asyncio.sleep(0.001)
        rank.ranker.gate.set()  # type: ignore[union-attr]
        await first
        await rank.stub.Rank(request("last"))
        assert rank.ranker.batches == [1, 1]
        assert ("Rank", "CANCELLED") in rank.calls


async def test_health_and_reflection(rank: RankServer) -> None:
    checks = health_pb2_grpc.HealthStub(rank.channel)
    for name in ("", "shortfirst.rank.v1.RankService"):
        answer = await checks.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    ask = reflection_pb2.ServerReflectionRequest(list_services="")
    call = reflection_pb2_grpc.ServerReflectionStub(rank.channel).ServerReflectionInfo(iter([ask]))
    async for answer in call:
        names = {s.name for s in answer.list_services_response.service}
        assert "shortfirst.rank.v1.RankService" in names


async def test_a_drain_lets_calls_end_and_refuses_new_ones() -> None:
    async with serve_rank(WordRanker(gate=threading.Event())) as rank:
        inside = asyncio.ensure_future(rank.stub.Rank(request("inside")))
        await asyncio.to_thread(rank.ranker.started.wait, 10)
        await rank.server.leave()
        draining = asyncio.ensure_future(drain(rank.gate, StopSignal(), 30))
        await asyncio.sleep(0)
        error = await refused(rank.stub.Rank(request("late")))
        assert error.code() is Code.UNAVAILABLE
        assert "draining" in error.details()
        checks = health_pb2_grpc.HealthStub(rank.channel)
        answer = await checks.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
        rank.ranker.gate.set()  # type: ignore[union-attr]
        assert await draining
        assert (await inside).forecasts[0].score == 1.0


async def test_a_second_signal_ends_the_wait() -> None:
    async with serve_rank(WordRanker(gate=threading.Event())) as rank:
        inside = asyncio.ensure_future(rank.stub.Rank(request("inside")))
        await asyncio.to_thread(rank.ranker.started.wait, 10)
        stop = StopSignal()
        stop.receive()
        assert stop.asked.is_set()
        stop.receive()
        assert not await drain(rank.gate, stop, 30)
        rank.ranker.gate.set()  # type: ignore[union-attr]
        await inside


async def test_a_taken_port_is_a_clear_error(rank: RankServer) -> None:
    with pytest.raises(OSError, match="taken"):
        async with serve_rank(address=rank.address):
            pass
