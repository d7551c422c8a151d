"""Realised lengths over a real socket: stored once, refused by field, never half acknowledged."""

from __future__ import annotations

import time

import grpc
import pytest

from serving.limits import Limits
from serving.messages import outcome_from, outcome_message
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
    for original in (outcome(), outcome(forecast=None, lane="batch", prompt_tokens=0)):
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


async def test_a_full_disk_is_not_acknowledged(outcome) -> None:  # type: ignore[no-untyped-def]
    async with serve_rank(sink=MemorySink(broken=True)) as rank:
        one = rank_pb2.ReportOutcomesRequest(outcomes=[outcome_message(outcome())])
        error = await refused(rank.stub.ReportOutcomes(one))
        assert error.code() is Code.UNAVAILABLE
