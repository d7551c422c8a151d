"""Who serves and who is tried, followed by a real server and told to history, log and webhooks."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import grpc
import httpx
import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from drift.attempts_file import retraining_path, save_attempts
from drift.entry import Entry
from drift.history import History, read_history
from drift.loop_metrics import LoopCollector
from drift.retraining import Attempt, Phase, RetrainConfig
from drift.shadow import shadow_path
from ranker.length_ranker import POOLED
from serving import rank_server
from serving.challengers import Challengers
from serving.cli import app, console
from serving.dashboard.document import Reading
from serving.drain import StopSignal
from serving.loop import LoopConfig, decayed, loop, shadows_end
from serving.messages import outcome_message
from serving.moves import UNKNOWN, Moves
from serving.rank_server import RankServerConfig
from serving.rankers import Rankers, Swap, Watched
from serving.telling import TellingConfig, telling
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc
from tests.drift.conftest import make_stream
from tests.serving.parts import WordRanker
from tests.serving.server_parts import ready
from tests.serving.test_shadow_scoring import Backwards, answered, lengths
from training.gate import Verdict, promote, rollback

NAME = "words"
ALL = [Watched(f"models:/{NAME}@champion", "sharegpt", "1")]


@dataclass
class Registered:
    """What the gate and the service ask of a registry, in memory."""

    aliases: dict[str, str] = field(default_factory=lambda: {"champion": "1"})
    kept: dict[str, str] = field(default_factory=dict)
    attached_files: list[str] = field(default_factory=list)
    away: bool = False

    def resolve(self, name: str, alias: str) -> str | None:
        return self.aliases.get(alias)

    def versions(self, name: str) -> list[str]:
        return ["3", "2", "1"]

    def set_alias(self, name: str, alias: str, version: str) -> None:
        self.aliases[alias] = version

    def tags(self, name: str) -> dict[str, str]:
        if self.away:
            raise ConnectionError("away")
        return dict(self.kept)

    def set_tag(self, name: str, key: str, value: str) -> None:
        self.kept[key] = value

    def attach(self, name: str, version: str, path: str, value: object) -> None:
        self.attached_files.append(path)

    def load(self, uri: str) -> WordRanker:
        version = uri.rpartition("/")[2]
        return (Backwards if version == "3" else WordRanker)(version=version)

    def promote(self, version: str, second: int, force: bool = False) -> None:
        verdict = Verdict(NAME, version, "champion", self.aliases["champion"],
                          obstacle="too few rows" if force else "", rows=40)  # fmt: skip
        promote(self, verdict, by="ada", now=_at(second), force=force)  # type: ignore[arg-type]


def _at(second: int) -> datetime:
    return datetime.fromtimestamp(1_700_000_000 + second, UTC)


def swap(before: str, after: str) -> Swap:
    return Swap(NAME, "champion", "sharegpt", before, after)


def test_a_promotion_says_who_when_on_what_grounds_and_a_rollback_is_named_so():
    registry, said = Registered(), list[Entry]()
    moves = Moves(registry, said.append, lambda: 5.0)
    registry.promote("2", 10)
    moves.swapped(swap("1", "2"))
    registry.promote("3", 20, force=True)
    moves.swapped(swap("2", "3"))
    rollback(registry, NAME, by="bob", now=_at(30))  # type: ignore[arg-type]
    moves.swapped(swap("3", "2"))
    told = [(e.kind, e.actor, e.before, e.after, e.at - 1_700_000_000) for e in said]
    assert told == [
        ("promotion", "ada", "1", "2", 10.0),
        ("promotion", "ada", "2", "3", 20.0),
        ("rollback", "bob", "3", "2", 30.0),
    ]
    assert "does not load" in said[0].gate
    assert "past the gate" in said[1].message
    assert (said[1].gate, said[1].details["forced"]) == ("too few rows", True)


def test_an_alias_moved_back_past_the_history_is_no_promotion_of_long_ago():
    registry, said = Registered(), list[Entry]()
    moves = Moves(registry, said.append, lambda: 5.0)
    registry.promote("2", 10)
    registry.promote("3", 20)
    moves.swapped(swap("1", "3"))
    moves.swapped(swap("3", "2"))  # somebody moved the alias in MLflow's pages
    moves.swapped(swap("2", "3"))  # and forth again: not what ada did at 20
    told = [(e.kind, e.actor, e.before, e.after, e.at) for e in said]
    assert told == [
        ("promotion", "ada", "1", "3", 1_700_000_020.0),
        ("rollback", UNKNOWN, "3", "2", 5.0),
        ("promotion", UNKNOWN, "2", "3", 5.0),
    ]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [("2", "1", "rollback"), ("1", "2", "promotion"), ("9", "10", "promotion")],
)
@pytest.mark.parametrize("away", [False, True])
def test_an_alias_that_was_moved_by_other_means_is_told_of_all_the_same(before, after, kind, away):
    said: list[Entry] = []
    Moves(Registered(away=away), said.append, lambda: 5.0).swapped(swap(before, after))
    assert [(e.kind, e.actor, e.at) for e in said] == [(kind, UNKNOWN, 5.0)]


def test_moves_while_the_service_was_down_are_told_after_it_starts(tmp_path):
    registry = Registered()
    registry.promote("2", 10)
    history = History(tmp_path / "history.db")
    history.add([Entry(1_700_000_005.0, "action", "x", "sharegpt", "", "")], 0.0)
    history.close()
    told = TellingConfig(*(tmp_path / name for name in ("o.db", "e.jsonl", "history.db")))
    for _ in range(2):  # once
        with telling(told, {}, lambda: 1_700_000_050.0, random.Random()) as running:
            rankers = Rankers({"sharegpt": WordRanker(version="2")})
            config = LoopConfig(told.outcomes, told.history)
            with loop(config, registry, ALL, rankers, running, lambda: 0.0):  # type: ignore[arg-type]
                pass
    (promotion,) = read_history(told.history, kinds=["promotion"])
    assert (promotion.actor, promotion.before, promotion.after) == ("ada", "1", "2")


def test_only_versions_that_serve_and_follow_an_alias_are_retrained(tmp_path):
    told = TellingConfig(*(tmp_path / name for name in ("o.db", "e.jsonl", "history.db")))
    with telling(told, {}, lambda: 0.0, random.Random()) as running:
        good = make_stream(500, 0.6, 1, served_model="sharegpt")
        bad = make_stream(500, 0.0, 2, start=500, served_model="sharegpt")
        running.sink.store([*good, *bad])
        running.sink.flush()
        standings = running.sink.standings()

        own = [Watched("models:/ranker@champion", "sharegpt", "1")]  # what the stream names

        def found(version: str, watched: list[Watched]) -> list[str]:
            rankers = Rankers({"sharegpt": WordRanker(version=version)})
            return [one.version for one in decayed(standings, watched, rankers)]

        assert found("1", own) == ["1"]
        assert found("2", own) == []  # another serves by now
        assert found("1", []) == []
        assert found("1", [Watched(own[0].uri, POOLED, "1")]) == []
        assert found("1", [Watched("models:/others@champion", "sharegpt", "1")]) == []


def test_no_training_mends_requests_that_go_unscored(tmp_path):
    told = TellingConfig(*(tmp_path / name for name in ("o.db", "e.jsonl", "history.db")))
    with telling(told, {}, lambda: 0.0, random.Random()) as running:
        own = [Watched("models:/ranker@champion", "sharegpt", "1")]
        rankers = Rankers({"sharegpt": WordRanker(name="ranker")})
        running.sink.store(make_stream(500, 0.6, 1, served_model="sharegpt"))
        running.sink.store(
            make_stream(600, 0.6, 2, start=500, served_model="sharegpt", scored=False)
        )
        running.sink.flush()
        standings = running.sink.standings()
        assert [str(s.state) for s in standings if not s.key.sliced] == ["fcfs"]
        assert decayed(standings, own, rankers) == []


async def test_a_server_tries_promotes_and_rolls_back_and_all_of_it_is_told(tmp_path):
    """Real gRPC, real files: a worse challenger is noticed, a promotion and a rollback followed."""
    registry, stop = Registered(), StopSignal()
    told = TellingConfig(*(tmp_path / name for name in ("o.db", "e.jsonl", "history.db")))
    rankers, metrics = Rankers({"sharegpt": WordRanker(name=NAME)}), CollectorRegistry()
    clock = iter(range(1_800_000_000, 1_900_000_000)).__next__
    with ExitStack() as stack:
        running = stack.enter_context(telling(told, {}, lambda: float(clock()), random.Random()))
        config = LoopConfig(told.outcomes, told.history, RetrainConfig())
        closed = stack.enter_context(
            loop(config, registry, ALL, rankers, running, lambda: float(clock()))  # type: ignore[arg-type]
        )
        metrics.register(LoopCollector(closed))
        task = asyncio.create_task(
            rank_server.run(
                RankServerConfig(port=0, metrics_port=0, reload_s=0.01), rankers, running.sink,
                metrics, watched=list(ALL), source=registry,
                read=Reading(running.sink.board, told.history, closed.shadows, closed.retraining),
                shadower=closed.shadower, swapped=closed.swapped,
                looked=closed.challengers.look, ready_file=tmp_path / "ready.json", stop=stop,
            )
        )  # fmt: skip
        where = await ready(tmp_path / "ready.json", task)
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with (
            grpc.aio.insecure_channel(where["grpc"], options=options) as channel,
            httpx.AsyncClient() as http,
        ):
            stub = rank_pb2_grpc.RankServiceStub(channel)

            async def ask(first: int, count: int = 20) -> str:
                batch = answered(first, count)
                items = [
                    rank_pb2.RankItem(id=i, prompt=p)
                    for i, p in zip(batch.ids, batch.prompts, strict=True)
                ]
                answer = await stub.Rank(rank_pb2.RankRequest(items=items))
                reported = [outcome_message(o) for o in lengths(first, count)]
                await stub.ReportOutcomes(rank_pb2.ReportOutcomesRequest(outcomes=reported))
                return str(answer.ranker.version)

            async def until_version(version: str) -> None:
                async with asyncio.timeout(30):
                    while await ask(0, 1) != version:
                        await asyncio.sleep(0.01)

            registry.aliases["challenger"] = "3"
            async with asyncio.timeout(60):
                first = 0
                while not read_history(told.history, kinds=["shadow"]):
                    first += 20
                    assert await ask(first) == "1"
            kept = shadow_path(told.outcomes)
            async with asyncio.timeout(30):
                while not kept.exists() or '"worse"' not in kept.read_text():
                    await asyncio.sleep(0.01)
            page = (await http.get(where["dashboard"] + "board.json")).json()
            assert page["shadows"][0]["verdict"] == "worse"
            text = (await http.get(where["metrics"])).text
            assert 'shortfirst_drift_shadow_challenger_tau{challenger="3",champion="1"' in text
            assert "shortfirst_drift_shadow_prompts_scored_total" in text

            registry.promote("2", 10)
            await until_version("2")
            rollback(registry, NAME, by="bob", now=_at(20))  # type: ignore[arg-type]
            await until_version("1")
            async with asyncio.timeout(30):
                while len(read_history(told.history, kinds=["promotion", "rollback"])) < 2:
                    await asyncio.sleep(0.01)
        stop.receive()
        await task
    kinds = [(e.kind, e.actor, e.after) for e in read_history(told.history) if e.kind != "state"]
    assert ("promotion", "ada", "2") in kinds
    assert ("rollback", "bob", "1") in kinds
    logged = [json.loads(line) for line in told.events.read_text().splitlines()]
    assert {"shadow", "promotion", "rollback"} <= {line["kind"] for line in logged}


def test_a_challenger_that_came_to_nothing_is_scored_no_more_and_that_is_told_once():
    registry, said = Registered(), list[Entry]()
    registry.aliases["challenger"] = "2"
    challengers = Challengers(registry, [NAME])
    given_up = shadows_end(challengers, said.append, lambda: 5.0)
    challengers.look()
    assert challengers.of(NAME) is not None
    for _ in range(2):
        given_up("sharegpt", NAME, "2")
        assert challengers.of(NAME) is None
        challengers.look()
        assert challengers.of(NAME) is None
    assert [(e.kind, e.after, e.version, e.at) for e in said] == [("shadow", "ended", "2", 5.0)]
    registry.aliases["challenger"] = "3"
    challengers.look()
    tried = challengers.of(NAME)
    assert tried is not None
    assert tried.version == "3"


# -- the command line -----------------------------------------------------------------------------


def shortfirst(home: Path, *arguments: str) -> tuple[str, str]:
    """What was printed, and what a mistake was told."""
    environ = {"SHORTFIRST_HOME": str(home), "SHORTFIRST_TRACKING_URI": ""}
    done = CliRunner().invoke(app, list(arguments), env=environ)
    explained = console.explain(done.exception) if done.exception else None
    return done.stdout, explained.message if explained else ""


def test_retraining_without_retention_is_refused_with_what_is_missing(tmp_path):
    _, why = shortfirst(tmp_path, "serve", "--retrain")
    assert "prompts are not retained" in why
    assert "--retain-prompts DAYS" in why
    _, why = shortfirst(
        tmp_path, "serve", "--retrain", "--retain-prompts", "7", "--reload-seconds", "0"
    )
    assert "--reload-seconds" in why


def test_retraining_of_what_follows_no_alias_is_refused(tmp_path):
    told = TellingConfig(*(tmp_path / name for name in ("o.db", "e.jsonl", "history.db")))
    with telling(told, {}, lambda: 0.0, random.Random()) as running:
        rankers = Rankers({"sharegpt": WordRanker()})
        for watched in ([], [Watched(ALL[0].uri, POOLED, "1")]):
            made = loop(
                LoopConfig(told.outcomes, told.history, RetrainConfig()),
                Registered(), watched, rankers, running, lambda: 0.0,  # type: ignore[arg-type]
            )  # fmt: skip
            with pytest.raises(ValueError, match="follows an alias"), made:
                pass


def test_status_tells_of_challengers_and_of_retraining(tmp_path):
    told = TellingConfig(
        tmp_path / "outcomes.db", tmp_path / "drift-events.jsonl", tmp_path / "drift-history.db"
    )
    with telling(told, {}, lambda: 0.0, random.Random()) as running:
        running.sink.store(make_stream(300, 0.5, 1, served_model="m"))
    row = {"served_model": "m", "ranker": NAME, "champion": "1", "challenger": "2",
           "verdict": "better", "label": "all", "pairs": 500, "champion_tau": 0.21,
           "challenger_tau": 0.35, "difference": 0.14, "low": 0.1, "high": 0.18, "slices": [],
           "at": 1.7e9, "total_pairs": 500, "waiting": 0, "forgotten": 0, "dropped": 0}  # fmt: skip
    shadow_path(told.outcomes).write_text(json.dumps([row]))
    attempt = Attempt("m", NAME, "champion", "1", Phase.REFUSED, 1.7e9, 1.7e9,
                      reasons=("tau-b: orders worse by 0.050",), challenger="2")  # fmt: skip
    save_attempts(retraining_path(told.outcomes), {"m": attempt})
    out, _ = shortfirst(tmp_path, "drift", "status")
    for words in ("better", "0.350", "+0.100 to +0.180", "refused", "orders worse by 0.050"):
        assert words in out
    out, _ = shortfirst(tmp_path, "drift", "status", "--json")
    (found,) = json.loads(out)
    assert found["shadow"] == row
    assert found["retraining"]["phase"] == "refused"
    shadow_path(told.outcomes).write_text("{")
    assert "remove it" in shortfirst(tmp_path, "drift", "status")[1]
