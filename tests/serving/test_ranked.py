"""What was ranked reaches those who asked for it, and nobody's trouble reaches an answer."""

from __future__ import annotations

import logging
import threading

import pytest

from ranker.types import Forecast
from serving import ranked as module
from serving.messages import forecast_from, forecast_message
from serving.rank_client import RankClient, RankClientConfig
from serving.ranked import HandedOn, Ranked
from shortfirst.rank.v1 import rank_pb2
from tests.serving.engine_parts import WordBackend, serve_front
from tests.serving.parts import SECRET, WordRanker, serve_rank
from tests.serving.test_generate_service import answers, text


def asked(*prompts: str, tenant: str = "acme", lane: str = "batch") -> rank_pb2.RankRequest:
    items = [rank_pb2.RankItem(id=f"r{i}", prompt=prompt) for i, prompt in enumerate(prompts)]
    return rank_pb2.RankRequest(items=items, tenant=tenant, lane=lane)


def of(*prompts: str) -> Ranked:
    forecasts = WordRanker().forecast(prompts)
    ids = tuple(map(str, range(len(prompts))))
    return Ranked("m", "words", "1", "acme", "", ids, prompts, tuple(forecasts), 0.0)


async def test_each_answer_is_told_of_with_who_asked_and_what_was_said() -> None:
    told: list[Ranked] = []
    async with serve_rank(ranked=[told.append]) as rank:
        answer = await rank.stub.Rank(asked("one", "one two"))
    (one,) = told
    assert (one.served_model, one.ranker, one.version) == ("sharegpt", "words", "1")
    assert (one.tenant, one.lane, one.ids) == ("acme", "batch", ("r0", "r1"))
    assert one.prompts == ("one", "one two")
    assert [f.score for f in one.forecasts] == [f.score for f in answer.forecasts]
    assert "one two" not in repr(one)
    assert "acme" in repr(one)


async def test_trouble_fails_no_answer_keeps_nobody_else_from_it_and_logs_no_prompt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[Ranked] = []

    def broken(ranked: Ranked) -> None:
        raise ValueError(ranked.prompts[0])

    with caplog.at_level(logging.DEBUG):
        async with serve_rank(ranked=[broken, told.append]) as rank:
            assert (await rank.stub.Rank(asked(SECRET))).forecasts
    assert len(told) == 1
    assert "not taken: ValueError" in caplog.text
    assert SECRET not in caplog.text


async def test_one_that_stands_still_holds_no_answer_up() -> None:
    gate, told = threading.Event(), list[Ranked]()

    def slow(ranked: Ranked) -> None:
        gate.wait(30)
        told.append(ranked)

    async with serve_rank(ranked=[slow]) as rank:
        for _ in range(3):
            await rank.stub.Rank(asked("one"))
        assert told == []
        gate.set()
    assert len(told) == 3


@pytest.mark.parametrize("bound", ["_MOST_ANSWERS", "_MOST_CHARS"])
def test_what_waits_is_bounded_and_what_is_dropped_is_counted(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, bound, 2 if bound == "_MOST_ANSWERS" else 7)
    gate, told, dropped = threading.Event(), list[Ranked](), list[int]()

    def slow(ranked: Ranked) -> None:
        gate.wait(30)
        told.append(ranked)

    hand_on = HandedOn([slow], dropped.append)
    for _ in range(3):
        hand_on(of("one"))  # six characters wait, then nine would
    hand_on(of("a", "b"))
    gate.set()
    hand_on.close()
    assert dropped == [1, 2]
    assert len(told) == 2


async def test_an_engine_names_the_request_its_tenant_and_its_lane() -> None:
    """By these an outcome finds what was said of it: they are those that it will have."""
    told: list[Ranked] = []
    backend = WordBackend()
    async with (
        serve_rank(ranked=[told.append]) as rank,
        RankClient(RankClientConfig(rank.address, 10.0)) as ranks,
        serve_front(backend, ranks) as front,
    ):
        await answers(front.stub.Generate(text(request_id="r7", tenant="acme")))
        await answers(front.stub.Generate(text(tenant="acme", lane=backend.lanes[-1].name)))
    first, second = told
    assert (first.ids, first.tenant, first.lane) == (("r7",), "acme", backend.lanes[0].name)
    assert second.ids == (list(backend.submitted)[1],)
    assert second.lane == backend.lanes[-1].name


@pytest.mark.parametrize("trust", [0.0, 0.25, 1.0])
def test_trust_survives_the_wire(trust: float) -> None:
    said = Forecast(1.0, (3.0,), "r", "1", (0.5,), trust=trust)
    message = rank_pb2.Forecast.FromString(forecast_message("a", said).SerializeToString())
    assert message.HasField("trust") == (trust < 1.0)
    assert forecast_from(message, rank_pb2.RankerVersion(name="r", version="1")) == said


def test_a_trust_that_is_no_share_is_refused() -> None:
    for trust in (-0.1, 1.1, float("nan")):
        message = rank_pb2.Forecast(score=1.0, levels=[0.5], quantiles=[3.0], trust=trust)
        with pytest.raises(ValueError, match="trust"):
            forecast_from(message, rank_pb2.RankerVersion(name="r", version="1"))
