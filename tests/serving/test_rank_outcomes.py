"""Realised lengths over a real socket: stored once, refused by field, never half acknowledged."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
import time

import grpc
import numpy as np
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from grpc_status import rpc_status

from drift.opened import Open
from drift.sink import MonitoredStore
from ranker.sketch import sketches
from ranker.types import Forecast
from serving.limits import Limits
from serving.messages import open_message, outcome_from, outcome_message, set_time
from shortfirst.rank.v1 import rank_pb2
from tests.serving.parts import MemorySink, RankServer, fields, refused, serve_rank

Code = grpc.StatusCode


async def test_outcomes_are_stored_once(rank: RankServer, outcome) -> None:  # type: ignore[no-untyped-def]
    message = outcome_message(outcome())
    again = rank_pb2.ReportOutcomesRequest(outcomes=[message, outcome_message(outcome("r2"))])
    first = await rank.stub.ReportOutcomes(rank_pb2.ReportOutcomesRequest(outcomes=[message]))
    second = await rank.stub.ReportOutcomes(again)
    assert (first.stored, first.duplicates) == (1, 0)
    assert (second.stored, second.duplicates) == (1, 1)
    assert rank.sink.outcomes["r1"] == outcome()


def test_outcomes_survive_the_wire_unchanged(outcome) -> None:  # type: ignore[no-untyped-def]
    (sketch,) = sketches(np.random.default_rng(1).normal(size=(1, 96)))
    embedded = Forecast(1.5, (1.0, 2.0), "words", "1", (0.5, 0.9), sketch=sketch)
    for original in (
        outcome(),
        outcome(forecast=None, lane="batch", prompt_tokens=0),
        outcome(forecast=embedded),
    ):
        raw = outcome_message(original).SerializeToString()
        back = outcome_from(rank_pb2.Outcome.FromString(raw), "outcomes[0]", Limits(), "x")
        assert back == original


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: m.ClearField("request_id"), "request_id"),
        (lambda m: setattr(m, "tenant", "t" * 257), "tenant"),
        (lambda m: m.ClearField("finish_reason"), "finish_reason"),
        (lambda m: setattr(m, "finish_reason", 99), "finish_reason"),
        (lambda m: m.ClearField("arrival_time"), "arrival_time"),
        (lambda m: setattr(m.finish_time, "nanos", -1), "finish_time"),
        (lambda m: setattr(m.finish_time, "seconds", 5), "finish_time"),
        (lambda m: setattr(m.finish_time, "seconds", 253_402_300_799), "finish_time"),
        (lambda m: setattr(m.arrival_time, "seconds", 253_402_300_799), "arrival_time"),
        (lambda m: m.ClearField("ranker"), "ranker"),
        (lambda m: setattr(m.ranker, "name", "r" * 257), "ranker.name"),
        (lambda m: setattr(m.ranker, "version", "9" * 257), "ranker.version"),
        (lambda m: m.forecast.levels.extend([0.5] * 255), "forecast.levels"),
        (lambda m: setattr(m.forecast, "score", float("nan")), "forecast.score"),
        (lambda m: m.forecast.sketch.extend([0.5] * 65), "forecast.sketch"),
        (lambda m: m.forecast.sketch.append(float("nan")), "forecast.sketch"),
        (lambda m: m.forecast.sketch.append(float("inf")), "forecast.sketch"),
        (lambda m: m.forecast.quantiles.append(9.0), "forecast"),
        (lambda m: m.forecast.quantiles.__setitem__(0, 99.0), "forecast"),
    ],
)
async def test_a_bad_outcome_names_its_field_and_stores_nothing(  # type: ignore[no-untyped-def]
    rank: RankServer, outcome, change, field: str
) -> None:
    good, bad = outcome_message(outcome("good")), outcome_message(outcome("bad"))
    change(bad)
    call = rank.stub.ReportOutcomes(rank_pb2.ReportOutcomesRequest(outcomes=[good, bad]))
    error = await refused(call)
    assert error.code() is Code.INVALID_ARGUMENT
    assert fields(error) == [f"outcomes[1].{field}"]
    assert rank.sink.outcomes == {}


async def test_a_clock_somewhat_ahead_is_taken_for_right(  # type: ignore[no-untyped-def]
    rank: RankServer, outcome
) -> None:
    now = time.time()
    for ahead, stored in ((300.0, True), (3600.0, False)):
        message = outcome_message(outcome(f"a{ahead}", arrival=now + ahead, finished=now + ahead))
        call = rank.stub.ReportOutcomes(rank_pb2.ReportOutcomesRequest(outcomes=[message]))
        if stored:
            assert (await call).stored == 1
        else:
            error = await refused(call)
            assert fields(error) == ["outcomes[0].arrival_time"]
            assert "clock" in (error.details() or "")


async def test_too_many_outcomes_are_refused(rank: RankServer, outcome) -> None:  # type: ignore[no-untyped-def]
    many = [outcome_message(outcome(f"r{i}")) for i in range(1025)]
    error = await refused(rank.stub.ReportOutcomes(rank_pb2.ReportOutcomesRequest(outcomes=many)))
    assert error.code() is Code.INVALID_ARGUMENT
    assert fields(error) == ["outcomes"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), Code.RESOURCE_EXHAUSTED),
        (OSError(errno.EIO, "Input/output error"), Code.UNAVAILABLE),
        (sqlite3.OperationalError("database is locked"), Code.UNAVAILABLE),
    ],
)
async def test_what_was_not_stored_is_not_acknowledged(outcome, error, code) -> None:  # type: ignore[no-untyped-def]
    async with serve_rank(sink=MemorySink(broken=error)) as rank:
        one = rank_pb2.ReportOutcomesRequest(outcomes=[outcome_message(outcome())])
        found = await refused(rank.stub.ReportOutcomes(one))
        assert found.code() is code
        assert any(detail.Is(RetryInfo.DESCRIPTOR) for detail in _details(found))


async def test_a_full_database_asks_to_come_again_and_then_takes_everything(  # type: ignore[no-untyped-def]
    outcome, tmp_path
) -> None:
    sink = MonitoredStore.open(tmp_path / "o.db", tmp_path / "e.jsonl", time.time)
    database = sink._store._db  # what a full disk does, without filling one
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")
    many = [outcome_message(outcome(f"r{i}")) for i in range(600)]
    request = rank_pb2.ReportOutcomesRequest(outcomes=many)
    async with serve_rank(sink=sink) as rank:
        error = await refused(rank.stub.ReportOutcomes(request))
        assert error.code() is Code.RESOURCE_EXHAUSTED
        assert sink.faults().refused == 600
        database.execute("PRAGMA max_page_count = 1000000")
        assert (await rank.stub.ReportOutcomes(request)).stored == 600
    sink.close()


async def test_open_requests_come_with_their_reporter(rank: RankServer, outcome) -> None:  # type: ignore[no-untyped-def]
    whole = outcome()
    request = Open(
        "r9", "sharegpt", 40, whole.arrival, whole.arrival + 9.5, 12, whole.forecast, "t", "l"
    )
    message = rank_pb2.ReportOutcomesRequest(open=[open_message(request)], reporter="engine-1")
    set_time(message.sent_time, 1_700_000_100.5)
    assert (await rank.stub.ReportOutcomes(message)).stored == 0
    (delivery,) = rank.sink.deliveries
    assert delivery.open == [request]
    assert (delivery.reporter, delivery.sent) == ("engine-1", 1_700_000_100.5)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: m.open[0].ClearField("request_id"), "open[0].request_id"),
        (lambda m: setattr(m.open[0], "output_tokens", 4_000_000_000), "open[0].output_tokens"),
        (lambda m: m.open[0].ClearField("seen_time"), "open[0].seen_time"),
        (lambda m: m.open.extend(m.open[:1] * 1024), "open"),
        (lambda m: setattr(m, "reporter", "r" * 257), "reporter"),
        (lambda m: setattr(m.sent_time, "nanos", -1), "sent_time"),
        (lambda m: setattr(m.outcomes[0], "prompt_tokens", 4 << 29), "outcomes[0].prompt_tokens"),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_a_report_is_named(  # type: ignore[no-untyped-def]
    rank: RankServer, outcome, change, field: str
) -> None:
    whole = outcome()
    request = Open("r9", "sharegpt", 40, whole.arrival, whole.arrival + 9.5, 12)
    message = rank_pb2.ReportOutcomesRequest(
        outcomes=[outcome_message(whole)], open=[open_message(request)]
    )
    change(message)
    error = await refused(rank.stub.ReportOutcomes(message))
    assert fields(error) == [field]
    assert rank.sink.outcomes == {}


async def test_an_end_just_before_the_arrival_is_moved_there(rank: RankServer, outcome) -> None:  # type: ignore[no-untyped-def]
    message = outcome_message(outcome(arrival=1_700_000_003.0, finished=1_700_000_003.0))
    message.finish_time.seconds -= 2
    await rank.stub.ReportOutcomes(rank_pb2.ReportOutcomesRequest(outcomes=[message]))
    assert rank.sink.outcomes["r1"].finished == 1_700_000_003.0
    assert rank.sink.deliveries[0].mended == 1
    message.request_id = "r2"
    message.finish_time.seconds -= 60
    call = rank.stub.ReportOutcomes(rank_pb2.ReportOutcomesRequest(outcomes=[message]))
    assert fields(await refused(call)) == ["outcomes[0].finish_time"]


async def test_what_was_ranked_is_told_to_the_sink(rank: RankServer) -> None:
    items = [rank_pb2.RankItem(id=str(i), prompt="one two") for i in range(3)]
    await rank.stub.Rank(rank_pb2.RankRequest(items=items))
    await rank.stub.ReportOutcomes(rank_pb2.ReportOutcomesRequest())  # same thread, later
    async with asyncio.timeout(20):
        while len(rank.sink.scores) < 3:
            await asyncio.sleep(0)
    assert rank.sink.scores == [2.0, 2.0, 2.0]


def _details(error: grpc.aio.AioRpcError):  # type: ignore[no-untyped-def]
    status = rpc_status.from_call(error)
    return status.details if status else ()
