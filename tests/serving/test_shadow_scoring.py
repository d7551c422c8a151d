"""The challenger beside the champion: on a real server, and what it must never do to an answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drift.comparison import Verdict
from drift.entry import Entry
from drift.shadow import ShadowConfig
from ranker.types import FinishReason, Forecast, Outcome
from serving.challengers import Challengers
from serving.heard import Heard
from serving.messages import outcome_message
from serving.ranked import Ranked
from serving.shadow import Shadower, ShadowerConfig
from shortfirst.rank.v1 import rank_pb2
from tests.serving.parts import SECRET, MemorySink, WordRanker, serve_rank

QUICK = ShadowConfig(window=400, least=60, every=60, resamples=200)


@dataclass
class Shelf:
    """A registry of rankers by version, with aliases."""

    versions: dict[str, WordRanker]
    aliases: dict[str, str] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)

    def resolve(self, name: str, alias: str) -> str | None:
        return self.aliases.get(alias)

    def load(self, uri: str) -> WordRanker:
        self.loads.append(uri)
        return self.versions[uri.rpartition("/")[2]]


class Backwards(WordRanker):
    """Orders the other way round."""

    def forecast(self, prompts: object) -> list[Forecast]:
        found = super().forecast(prompts)  # type: ignore[arg-type]
        return [Forecast(-f.score, f.quantiles, f.ranker, f.version, f.levels) for f in found]


def until(true: Callable[[], bool]) -> None:
    """Wait for another thread, not for ever: a thread that waits on would hang the whole run."""
    tick = threading.Event()
    for _ in range(20_000):
        if true():
            return
        tick.wait(0.005)
    raise AssertionError("what was waited for did not come")


def answered(first: int, count: int, version: str = "1", served_model: str = "sharegpt") -> Ranked:
    """``count`` prompts, each with more words than the one before."""
    prompts = tuple("word " * (i + 1) for i in range(first, first + count))
    return Ranked(
        served_model=served_model, ranker="words", version=version, tenant="", lane="",
        ids=tuple(f"r{i}" for i in range(first, first + count)), prompts=prompts,
        forecasts=tuple(WordRanker(version=version).forecast(prompts)), at=float(first),
    )  # fmt: skip


def lengths(first: int, count: int, served_model: str = "sharegpt") -> list[Outcome]:
    """The answers of :func:`answered`: longer and longer."""
    return [
        Outcome(f"r{i}", served_model, i + 1, FinishReason.STOP, float(i), float(i) + 1.0)
        for i in range(first, first + count)
    ]


@pytest.fixture
def beside():
    """Makes a shadower whose challenger is version 2; closes it."""
    made = []

    def make(challenger: WordRanker, config: ShadowerConfig | None = None, **more: object):
        shelf = Shelf({"2": challenger}, {"challenger": "2"})
        challengers = Challengers(shelf, ["words"])
        challengers.look()
        said: list[Entry] = []
        shadower = Shadower(
            challengers, said.append, lambda: 9.0,
            config=config or ShadowerConfig(share=1.0, shadow=QUICK), **more,  # type: ignore[arg-type]
        )  # fmt: skip
        made.append(shadower)
        return shadower, said, shelf, challengers

    yield make
    for shadower in made:
        shadower.close()


async def test_a_worse_challenger_is_told_of_once_on_a_real_server(beside, tmp_path):
    shadower, said, _, _ = beside(Backwards(version="2"), file=tmp_path / "shadow.json")
    sink = MemorySink()
    async with serve_rank(sink=Heard(sink, shadower.ended), ranked=[shadower.ranked]) as server:  # type: ignore[arg-type]
        shadower.start()
        for first in range(0, 200, 20):
            batch = answered(first, 20)
            items = [
                rank_pb2.RankItem(id=i, prompt=p)
                for i, p in zip(batch.ids, batch.prompts, strict=True)
            ]
            answer = await server.stub.Rank(rank_pb2.RankRequest(items=items))
            assert answer.ranker.version == "1"  # only the champion's forecasts schedule
            assert [f.score for f in answer.forecasts] == [f.score for f in batch.forecasts]
            # Told on a thread of its own; an outcome that is there before has no forecast to meet.
            scored = first + 20
            await asyncio.to_thread(until, lambda least=scored: shadower.counts["scored"] >= least)
            reported = [outcome_message(o) for o in lengths(first, 20)]
            request = rank_pb2.ReportOutcomesRequest(outcomes=reported)
            await server.stub.ReportOutcomes(request)
            await server.stub.ReportOutcomes(request)  # a retry is no second pair
        await asyncio.to_thread(until, lambda: shadower.rows()[0]["total_pairs"] == 200)
        await asyncio.to_thread(until, lambda: shadower.rows()[0]["pairs"] >= 120)
    (row,) = shadower.rows()
    assert (row["champion_tau"], row["challenger_tau"], row["verdict"]) == (1.0, -1.0, "worse")
    (entry,) = said
    assert (entry.kind, entry.before, entry.after, entry.version) == (
        "shadow", "unclear", "worse", "2",
    )  # fmt: skip
    await asyncio.to_thread(until, lambda: '"worse"' in _text(tmp_path / "shadow.json"))
    assert shadower.found("sharegpt", "2")[1].verdict is Verdict.WORSE  # type: ignore[union-attr]
    assert shadower.found("sharegpt", "3") == (0, None)


async def test_a_challenger_that_hangs_delays_no_answer_and_drops_are_counted(beside):
    stuck = WordRanker(version="2", gate=threading.Event())
    config = ShadowerConfig(queue=30, share=1.0, shadow=QUICK)
    shadower, _, _, _ = beside(stuck, config)
    async with serve_rank(ranked=[shadower.ranked]) as server:
        shadower.start()
        for first in range(0, 100, 10):
            batch = answered(first, 10)
            items = [
                rank_pb2.RankItem(id=i, prompt=p)
                for i, p in zip(batch.ids, batch.prompts, strict=True)
            ]
            answer = await server.stub.Rank(rank_pb2.RankRequest(items=items), timeout=20)
            assert len(answer.forecasts) == 10
        await asyncio.to_thread(until, lambda: shadower.counts["dropped"] == 70)
    assert shadower.rows()[0]["dropped"] == 70
    stuck.gate.set()  # type: ignore[union-attr]


def test_it_gives_way_while_live_prompts_wait(beside):
    waiting = [1]
    shadower, _, _, _ = beside(challenger := WordRanker(version="2"))
    shadower.start(lambda: waiting[0])
    shadower.ranked(answered(0, 4))
    assert not challenger.started.wait(0.1)
    waiting[0] = 0
    assert challenger.started.wait(20)


def test_one_that_fails_loses_its_prompts_and_says_nothing_of_them(beside, caplog):
    shadower, _, _, _ = beside(WordRanker(version="2"))
    shadower.start()
    batch = answered(0, 2)
    poisoned = Ranked(**{
        **{name: getattr(batch, name) for name in batch.__slots__},
        "prompts": (f"poison {SECRET}", "fine"),
    })  # fmt: skip
    shadower.ranked(poisoned)
    until(lambda: shadower.counts["failed"] == 2)
    shadower.ranked(answered(10, 1))
    until(lambda: shadower.counts["scored"] == 1)
    assert SECRET not in caplog.text
    assert SECRET not in repr(shadower._jobs)


def test_what_is_on_disk_of_a_challenger_ends_with_it(beside, tmp_path):
    shadower, _, shelf, challengers = beside(
        Backwards(version="2"), file=(file := tmp_path / "shadow.json")
    )
    shadower.start()
    shadower.ranked(answered(0, 80))
    shadower.ended(lengths(0, 80))
    until(lambda: '"worse"' in _text(file))
    shelf.aliases.clear()
    challengers.look()
    shadower.ranked(answered(80, 1))
    until(lambda: _text(file) == "[]")


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_nothing_is_scored_without_a_challenger_or_beside_itself(beside):
    shadower, _, shelf, challengers = beside(WordRanker(version="2"))
    shadower.ranked(answered(0, 5, version="2"))  # it serves already
    assert shadower.rows() == []
    shadower.ranked(answered(0, 5))
    assert [row["challenger"] for row in shadower.rows()] == ["2"]
    shelf.aliases.clear()
    challengers.look()
    shadower.ranked(answered(5, 5))
    assert shadower.rows() == []


def test_another_challenger_and_another_champion_start_anew(beside):
    shadower, _, shelf, challengers = beside(WordRanker(version="2"))
    shadower.start()
    shadower.ranked(answered(0, 30))
    shadower.ended(lengths(0, 30))
    until(lambda: shadower.rows()[0]["total_pairs"] == 30)
    shelf.versions["3"] = WordRanker(version="3")
    shelf.aliases["challenger"] = "3"
    challengers.look()
    shadower.ranked(answered(30, 5))
    (row,) = shadower.rows()
    assert (row["champion"], row["challenger"], row["total_pairs"]) == ("1", "3", 0)


def test_a_version_that_does_not_load_is_tried_once(caplog):
    shelf = Shelf({}, {"challenger": "7"})
    challengers = Challengers(shelf, ["words"])
    challengers.look()
    challengers.look()
    assert shelf.loads == ["models:/words/7"]
    assert challengers.of("words") is None
    shelf.versions["8"] = WordRanker(version="8")
    shelf.aliases["challenger"] = "8"
    challengers.look()
    assert challengers.of("words") is shelf.versions["8"]


def test_a_registry_that_is_away_changes_nothing():
    class Away(Shelf):
        def resolve(self, name: str, alias: str) -> str | None:
            if not self.aliases:
                raise ConnectionError("away")
            return super().resolve(name, alias)

    shelf = Away({"2": WordRanker(version="2")}, {"challenger": "2"})
    challengers = Challengers(shelf, ["words"])
    challengers.look()
    shelf.aliases.clear()
    challengers.look()
    assert challengers.of("words") is shelf.versions["2"]


@pytest.mark.parametrize("change", [{"queue": 0}, {"chars": 0}, {"share": 0.0}, {"share": 1.5}])
def test_odd_settings_are_refused_by_name(change):
    with pytest.raises(ValueError, match=f"shadower.{next(iter(change))}"):
        ShadowerConfig(**change)
