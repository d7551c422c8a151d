"""The rank client: fails open, costs nothing when the service is away, loses no outcome."""

from __future__ import annotations

import asyncio
import errno
import itertools
import threading
import time
from collections import Counter

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift.opened import Open
from ranker.length_ranker import POOLED
from serving import report_metrics
from serving.breaker import Breaker, BreakerConfig
from serving.rank_client import RankClient, RankClientConfig
from serving.reporter import Reporter, ReporterConfig
from tests.serving.parts import MemorySink, RankServer, WordRanker, free_port, serve_rank

QUICK = ReporterConfig(first_wait_s=0.01, max_wait_s=0.05)


def config(target: str, deadline_s: float = 10.0, **changes: object) -> RankClientConfig:
    return RankClientConfig(target, deadline_s, reporter=QUICK, **changes)  # type: ignore[arg-type]


async def test_a_forecast_comes_back_whole() -> None:
    seen: Counter[str] = Counter()
    async with (
        serve_rank(WordRanker(novelty=0.97, sketch=(0.5, -1.25))) as rank,
        RankClient(config(rank.address), lambda r: seen.update([r])) as client,
    ):
        forecast = await client.forecast("one two three", "sharegpt")
    assert forecast == rank.ranker.forecast(["one two three"])[0]
    assert forecast.novel
    assert seen == {"scored": 1}


async def test_a_slow_service_costs_the_deadline_and_then_nothing() -> None:
    seen: Counter[str] = Counter()
    async with serve_rank(WordRanker(gate=threading.Event())) as rank:
        breaker = BreakerConfig(failures=2, open_s=60, max_open_s=60)
        settings = config(rank.address, 0.05, breaker=breaker)
        async with RankClient(settings, lambda r: seen.update([r])) as client:
            assert await client.connected(10)
            answers = [await client.forecast("x", "sharegpt") for _ in range(10)]
        rank.ranker.gate.set()  # type: ignore[union-attr]
    assert answers == [None] * 10
    assert seen == {"deadline_exceeded": 2, "open": 8}


async def test_an_absent_service_costs_no_exception_and_is_found_when_it_returns() -> None:
    seen: Counter[str] = Counter()
    address = f"127.0.0.1:{free_port()}"
    settings = config(address, 1.0, breaker=BreakerConfig(failures=1, open_s=0.01, max_open_s=0.05))
    async with RankClient(settings, lambda r: seen.update([r])) as client:
        assert await client.forecast("x", "sharegpt") is None
        async with serve_rank(address=address):
            async with asyncio.timeout(20):
                while await client.forecast("x y", "sharegpt") is None:
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(20):
            while await client.forecast("x", "sharegpt") is not None:
                await asyncio.sleep(0.01)
        async with serve_rank(address=address), asyncio.timeout(20):
            while await client.forecast("x", "sharegpt") is None:
                await asyncio.sleep(0.01)
    assert seen["scored"] >= 2
    assert seen["unavailable"] >= 1


async def test_a_model_without_a_ranker_is_unscored_and_leaves_the_breaker_closed(
    rank: RankServer,
) -> None:
    seen: Counter[str] = Counter()
    settings = config(rank.address, breaker=BreakerConfig(failures=1))
    async with RankClient(settings, lambda r: seen.update([r])) as client:
        assert await client.forecast("x", "nobody") is None
        assert await client.forecast("", "sharegpt") is None
        assert await client.forecast("x", "sharegpt") is not None
    assert seen == {"not_found": 1, "invalid_argument": 1, "scored": 1}


async def test_what_a_pooled_ranker_says_of_an_unknown_model_is_counted_apart() -> None:
    seen: Counter[str] = Counter()
    async with (
        serve_rank(WordRanker(POOLED)) as rank,
        RankClient(config(rank.address), lambda r: seen.update([r])) as client,
    ):
        assert await client.forecast("x", "gpt-17") == await client.forecast("x", POOLED)
    assert seen == {"fallback": 1, "scored": 1}


async def test_a_cancelled_request_is_cancelled_and_frees_the_probe() -> None:
    async with (
        serve_rank(WordRanker(gate=threading.Event())) as rank,
        RankClient(config(rank.address)) as client,
    ):
        asking = asyncio.ensure_future(client.forecast("x", "sharegpt"))
        await asyncio.to_thread(rank.ranker.started.wait, 10)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        rank.ranker.gate.set()  # type: ignore[union-attr]
        assert await client.forecast("x", "sharegpt") is not None


async def test_a_target_that_is_no_rank_service_leaves_requests_unscored() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with RankClient(config(f"127.0.0.1:{port}")) as client:
        assert await client.forecast("x", "sharegpt") is None
    await server.stop(0)


async def test_outcomes_arrive_although_the_disk_was_full(outcome) -> None:  # type: ignore[no-untyped-def]
    sink = MemorySink(broken=OSError(errno.ENOSPC, "No space left on device"))
    async with serve_rank(sink=sink) as rank, RankClient(config(rank.address)) as client:
        client.report([outcome(f"r{i}") for i in range(600)])
        assert not await client.reporter.flush(0.1)
        sink.broken = None
        assert await client.reporter.flush(20)
        assert len(sink.outcomes) == 600
        assert client.reporter.delivered == 600
        assert client.reporter.dropped == 0


async def test_an_error_that_is_no_status_does_not_end_reporting(  # type: ignore[no-untyped-def]
    outcome, caplog: pytest.LogCaptureFixture
) -> None:
    class Stub:
        calls = 0

        async def ReportOutcomes(self, request, timeout):  # type: ignore[no-untyped-def]
            self.calls += 1
            if self.calls == 1:
                raise RuntimeError("what must not be logged")

    stub = Stub()
    reporter = Reporter(stub, QUICK)  # type: ignore[arg-type]
    too_many = outcome("too many", output_tokens=2**40)  # beyond the field
    reporter.add([too_many])
    assert await reporter.flush(20)
    assert (reporter.delivered, reporter.dropped, stub.calls) == (0, 1, 0)
    reporter.add([too_many, outcome("fine")])
    assert await reporter.flush(20)
    assert (reporter.delivered, reporter.dropped) == (1, 2)
    assert stub.calls == 2
    assert "RuntimeError" in caplog.text
    assert "must not be logged" not in caplog.text
    await reporter.close(1)


async def test_one_that_is_refused_takes_no_other_with_it(  # type: ignore[no-untyped-def]
    outcome, caplog: pytest.LogCaptureFixture
) -> None:
    good = [outcome(f"r{i}") for i in range(20)]
    absurd = [outcome(f"x{i}", output_tokens=4_000_000_000) for i in range(2)]
    async with serve_rank() as rank, RankClient(config(rank.address)) as client:
        client.report([*good[:5], absurd[0], *good[5:], absurd[1]])
        assert await client.reporter.flush(20)
        assert list(rank.sink.outcomes) == [o.request_id for o in good]
        assert (client.reporter.delivered, client.reporter.dropped) == (20, 2)
        assert "outcomes[5].output_tokens" in caplog.text
        told = {r.name: r.value for r in report_metrics.readings(client.reporter)}
        assert told == {
            "shortfirst_report_outcomes_delivered_total": 20.0,
            "shortfirst_report_outcomes_dropped_total": 2.0,
            "shortfirst_report_outcomes_waiting": 0.0,
        }


async def test_requests_under_way_are_told_again_and_again(outcome) -> None:  # type: ignore[no-untyped-def]
    whole = outcome()
    tokens = itertools.count(1)

    def under_way() -> list[Open]:
        count = next(tokens)
        if count == 2:
            raise RuntimeError("the backend is busy")
        seen = whole.arrival + count
        return [Open("r1", "sharegpt", count, whole.arrival, seen, 12, whole.forecast)]

    often = ReporterConfig(name="engine-1", open_every_s=0.01)
    async with serve_rank() as rank:
        async with RankClient(RankClientConfig(rank.address, reporter=often)) as client:
            client.watch(under_way)
            async with asyncio.timeout(20):
                while len(rank.sink.deliveries) < 3:
                    await asyncio.sleep(0.01)
        (first,), (second,), *_ = (d.open for d in rank.sink.deliveries)
        assert (first.output_tokens, second.output_tokens) == (1, 3)
        assert first.bound().finish_reason.censored
        assert {d.reporter for d in rank.sink.deliveries} == {"engine-1"}
        assert rank.sink.deliveries[0].sent == pytest.approx(time.time(), abs=60)


async def test_outcomes_wait_for_a_service_that_is_away(outcome) -> None:  # type: ignore[no-untyped-def]
    address = f"127.0.0.1:{free_port()}"
    async with RankClient(config(address)) as client:
        client.report([outcome()])
        assert not await client.reporter.flush(0.05)
        async with serve_rank(address=address) as rank:
            assert await client.reporter.flush(20)
            assert list(rank.sink.outcomes) == ["r1"]


async def test_an_answer_to_another_call_ends_the_wait_of_outcomes(outcome) -> None:  # type: ignore[no-untyped-def]
    address = f"127.0.0.1:{free_port()}"
    # Once it has failed, the reporter alone would wait for longer than this test may take.
    patient = ReporterConfig(first_wait_s=0.02, max_wait_s=3600.0)
    settings = RankClientConfig(address, 10.0, BreakerConfig(open_s=0.01), reporter=patient)
    async with RankClient(settings) as client:
        client.report([outcome()])
        for _ in range(20):  # doublings: the next pause is hours long
            client.reporter.retry_now()
            await asyncio.sleep(0.03)
        async with serve_rank(address=address) as rank:
            while await client.forecast("some words", "") is None:
                await asyncio.sleep(0.01)
            async with asyncio.timeout(60):
                while not rank.sink.outcomes:
                    await asyncio.sleep(0.01)


async def test_a_full_buffer_drops_the_oldest(outcome) -> None:  # type: ignore[no-untyped-def]
    address = f"127.0.0.1:{free_port()}"
    small = ReporterConfig(capacity=10, batch=2, first_wait_s=0.01, max_wait_s=0.05)
    async with RankClient(RankClientConfig(address, reporter=small)) as client:
        client.report([outcome(f"r{i}") for i in range(25)])
        assert client.reporter.dropped == 15
        async with serve_rank(address=address) as rank:
            assert await client.reporter.flush(20)
            assert list(rank.sink.outcomes) == [f"r{i}" for i in range(15, 25)]


def test_the_breaker_opens_probes_once_and_closes() -> None:
    breaker = Breaker(BreakerConfig(failures=2, open_s=1.0, max_open_s=3.0))
    assert breaker.allow(0.0)
    breaker.failure(0.0)
    assert breaker.allow(0.1)
    breaker.failure(0.1)
    assert breaker.open
    assert not breaker.allow(1.0)
    assert breaker.allow(1.1)
    assert not breaker.allow(1.1)  # one probe at a time
    breaker.failure(1.2)
    assert not breaker.allow(3.1)  # the wait has doubled
    assert breaker.allow(3.2)
    breaker.abandon()
    assert breaker.allow(3.2)
    breaker.success()
    assert breaker.allow(3.2)
    assert not breaker.open


@given(st.lists(st.sampled_from(["fail", "ok", "wait"]), max_size=60))
def test_the_breaker_never_stays_open_for_longer_than_its_longest_wait(steps: list[str]) -> None:
    settings = BreakerConfig(failures=2, open_s=1.0, max_open_s=4.0)
    breaker, now = Breaker(settings), 0.0
    for step in steps:
        if step == "wait":
            now += 1.0
        elif breaker.allow(now):
            breaker.success() if step == "ok" else breaker.failure(now)
    assert breaker.allow(now + settings.max_open_s)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: RankClientConfig(""), "target"),
        (lambda: RankClientConfig("x", deadline_s=0), "deadline_s"),
        (lambda: BreakerConfig(failures=0), "failures"),
        (lambda: BreakerConfig(open_s=9), "open_s"),
        (lambda: ReporterConfig(batch=2000), "batch"),
        (lambda: ReporterConfig(capacity=1), "capacity"),
    ],
)
def test_a_bad_setting_is_named(make, name: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=name):
        make()
