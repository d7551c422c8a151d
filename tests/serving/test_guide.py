"""Over real sockets: lost order costs its tenant's forecasts their trust, until it is back."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from drift.acting.config import ActConfig
from drift.acting.metrics import ActingCollector
from drift.acting.standing import Standing
from drift.config import MonitorConfig
from drift.entry import Entry
from drift.key import Key
from drift.sink import MonitoredStore
from drift.worker import Inline, Work, Worker
from ranker.types import FinishReason, Outcome
from serving.guide import Guide
from serving.messages import forecast_from, outcome_message
from shortfirst.rank.v1 import rank_pb2
from tests.serving.parts import SECRET, RankServer, serve_rank

QUICK = MonitorConfig.from_mapping(
    {"window": 300, "every": 20, "reference_first": 200, "reference_most": 200,
     "least": 100, "fcfs_least": 200, "slices": {"least": 60, "every": 20},
     "states": {"dwell": 100}, "chart": {"streams": 16, "length": 2048}}
)  # fmt: skip
WHOLE = Key("sharegpt", "words", "1")


class Traffic:
    """Prompts of many lengths, and answers to them that follow the forecasts or do not."""

    def __init__(self, rank: RankServer, guide: Guide) -> None:
        self._rank = rank
        self._guide = guide
        self._rng = np.random.default_rng(5)
        self._number = 0

    async def trust(self, tenant: str) -> float:
        """Of the forecasts that a tenant gets now."""
        answer = await self._ask(tenant, ["one two three"])
        (forecast,) = (forecast_from(f, answer.ranker) for f in answer.forecasts)
        return forecast.trust

    async def serve(self, count: int, scale: float = 1.0, **orders: bool) -> None:
        """``count`` requests of each tenant, whose answers are ``scale`` as long as forecast or,
        where it has lost its order, as long as some other's."""
        for _ in range(0, count, 50):
            outcomes: list[Outcome] = []
            for tenant, ordered in orders.items():
                words = self._rng.lognormal(3.5, 0.8, 50).astype(int) + 1
                answer = await self._ask(tenant, ["w " * n for n in words])
                meant = words if ordered else self._rng.permutation(words)
                lengths = meant * scale * self._rng.lognormal(0.0, 0.45, 50)
                outcomes += [
                    self._outcome(tenant, i, int(tokens) + 1, answer)
                    for i, tokens in enumerate(lengths)
                ]
            outcomes.sort(key=lambda outcome: outcome.arrival)
            report = rank_pb2.ReportOutcomesRequest(outcomes=map(outcome_message, outcomes))
            await self._rank.stub.ReportOutcomes(report)
        self._guide.look()

    async def _ask(self, tenant: str, prompts: list[str]) -> rank_pb2.RankResponse:
        items = [rank_pb2.RankItem(id=str(i), prompt=text) for i, text in enumerate(prompts)]
        return await self._rank.stub.Rank(rank_pb2.RankRequest(items=items, tenant=tenant))

    def _outcome(self, tenant: str, i: int, tokens: int, answer: rank_pb2.RankResponse) -> Outcome:
        self._number += 1
        arrival = 1_700_000_000.0 + self._number // 100 + 0.01 * i
        return Outcome(
            request_id=f"r{self._number}",
            served_model="sharegpt",
            output_tokens=tokens,
            finish_reason=FinishReason.STOP,
            arrival=arrival,
            finished=arrival + 0.1,
            forecast=forecast_from(answer.forecasts[i], answer.ranker),
            tenant=tenant,
        )


@asynccontextmanager
async def guided(
    tmp_path: Path,
    config: ActConfig | None = None,
    announce: Callable[[Entry], None] = lambda entry: None,
    work: Work | None = None,
) -> AsyncIterator[tuple[Traffic, Guide, RankServer]]:
    now = iter(range(10**9))

    def clock() -> float:
        return 1_700_000_000.0 + next(now) / 10.0

    sink = MonitoredStore.open(
        tmp_path / "outcomes.db", tmp_path / "events.jsonl", clock, QUICK, work=work or Inline()
    )
    guide = Guide(sink, config or ActConfig(), announce, clock)
    async with serve_rank(sink=sink, guide=guide) as rank:  # type: ignore[arg-type]
        yield Traffic(rank, guide), guide, rank
    sink.close()


async def test_a_tenant_whose_order_is_lost_loses_trust_alone_and_gets_it_back(
    tmp_path: Path,
) -> None:
    told: list[Entry] = []
    async with guided(tmp_path, announce=told.append) as (traffic, guide, _):
        await traffic.serve(300, acme=True, globex=True)
        assert (await traffic.trust("acme"), await traffic.trust("globex")) == (1.0, 1.0)
        assert told == []
        await traffic.serve(300, acme=False, globex=True)
        assert (await traffic.trust("acme"), await traffic.trust("globex")) == (0.0, 1.0)
        registry = CollectorRegistry()
        registry.register(ActingCollector(guide.acting))
        labels = 'ranker="words",served_model="sharegpt",tenant="acme",version="1"'
        page = generate_latest(registry).decode()
        assert f'shortfirst_drift_slice_trust_ratio{{lane="",{labels}}} 0.0' in page
        await traffic.serve(750, acme=True, globex=True)
        assert (await traffic.trust("acme"), await traffic.trust("globex")) == (1.0, 1.0)
    acme = [entry for entry in told if entry.tenant == "acme"]
    assert {entry.kind for entry in told} == {"action"}
    assert all(entry.tenant != "globex" or entry.after == "trust 1" for entry in told)
    assert "trust 0" in [entry.after for entry in acme]
    assert acme[-1].after == "trust 1"
    assert all(entry.reasons and entry.advice and entry.message for entry in told)


async def test_answers_twice_as_long_get_quantiles_to_match(tmp_path: Path) -> None:
    told: list[Entry] = []
    async with guided(tmp_path, announce=told.append, work=Worker()) as (traffic, guide, _):
        await traffic.serve(400, acme=True)
        before = (await traffic._ask("acme", ["w " * 30])).forecasts[0]
        await traffic.serve(500, scale=2.0, acme=True)
        after = (await traffic._ask("acme", ["w " * 30])).forecasts[0]
        assert after.score == before.score == 30.0, "the score stays the ranker's own"
        median = dict(zip(after.levels, after.quantiles, strict=True))[0.5]
        assert 45.0 < median < 80.0
        assert list(guide.acting.recalibration.active) == [WHOLE]
    assert "quantiles recalibrated" in [entry.after for entry in told]


async def test_what_is_done_after_a_restart_is_what_was_done_before(tmp_path: Path) -> None:
    async with guided(tmp_path) as (traffic, _, _):
        await traffic.serve(300, acme=True)
        await traffic.serve(400, acme=False)
        assert await traffic.trust("acme") == 0.0
    told: list[Entry] = []
    async with guided(tmp_path, announce=told.append) as (traffic, _, _):
        assert await traffic.trust("acme") == 0.0
    assert told
    assert all(entry.reasons[0].startswith("found at the start") for entry in told)


async def test_without_actions_forecasts_go_out_as_they_are(tmp_path: Path) -> None:
    off = ActConfig(shrink=False, fallback=False, recalibrate=False)
    async with guided(tmp_path, off) as (traffic, guide, _):
        await traffic.serve(300, acme=True)
        await traffic.serve(300, acme=False, scale=3.0)
        assert await traffic.trust("acme") == 1.0
        assert not guide.acting.recalibration.active


async def test_trouble_with_acting_fails_no_answer_and_tells_no_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with guided(tmp_path) as (_, guide, rank):

        def broken(*args: object) -> None:
            raise ValueError(SECRET)

        monkeypatch.setattr(guide.acting.trust, "of", broken)
        with caplog.at_level(logging.ERROR):
            items = [rank_pb2.RankItem(id="a", prompt=SECRET)]
            answer = await rank.stub.Rank(rank_pb2.RankRequest(items=items))
    assert len(answer.forecasts) == 1
    assert "as the ranker made them" in caplog.text
    assert SECRET not in caplog.text


class Moment:
    """What a guide asks, and how often."""

    def __init__(self) -> None:
        self.work = Inline()
        self.alerts, self.asked, self.now = 0, 0, 100.0

    def standings(self) -> list[Standing]:
        self.asked += 1
        return []

    def recent(self, key: Key) -> tuple[Outcome, ...]:
        return ()


def test_the_monitor_is_asked_once_a_second_and_at_once_upon_an_alert() -> None:
    watched = Moment()
    guide = Guide(watched, ActConfig(), lambda entry: None, lambda: watched.now)
    for _ in range(400):  # a report of 50 outcomes every 10 ms
        watched.now += 0.01
        guide.told(50)
    assert 4 <= watched.asked <= 6
    asked = watched.asked
    guide.told(50)
    assert watched.asked == asked
    watched.alerts += 1
    guide.told(0)
    guide.told(50)
    assert watched.asked == asked + 1, "once for each"
    watched.now += 1.0
    guide.told(0)
    assert watched.asked == asked + 2, "what came meanwhile is still to be looked at"
    watched.now += 1.0
    guide.told(0)
    assert watched.asked == asked + 2, "nothing came"
