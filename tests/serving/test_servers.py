"""Both services as they run in a process: ready file, metrics, reload, drain, outcomes on disk."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import httpx
import pytest
from prometheus_client import CollectorRegistry

from drift.metrics import DriftCollector
from drift.outcomes import OutcomeStore
from drift.sink import MonitoredStore
from ranker.types import FinishReason, Outcome
from serving.breaker import BreakerConfig
from serving.drain import StopSignal
from serving.engine_server import EngineServerConfig, EngineStopped
from serving.rank_client import RankClientConfig
from serving.rank_server import RankServerConfig
from serving.rankers import Rankers, follows_alias
from shortfirst.generate.v1 import generate_pb2, generate_pb2_grpc
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc
from tests.serving.engine_parts import WordBackend
from tests.serving.parts import MemorySink, WordRanker, free_port
from tests.serving.server_parts import Shelf, ready, start_engine, start_rank


async def test_the_ready_file_says_where_and_metrics_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stop, file = StopSignal(), tmp_path / "größe mit leer" / "ready.json"
    task = start_rank(file, stop, MemorySink())
    where = await ready(file, task)
    async with grpc.aio.insecure_channel(where["grpc"]) as channel:
        stub = rank_pb2_grpc.RankServiceStub(channel)
        item = rank_pb2.RankItem(id="a", prompt="one two")
        await stub.Rank(rank_pb2.RankRequest(items=[item]))
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Rank(rank_pb2.RankRequest())
    async with httpx.AsyncClient() as client:
        page = (await client.get(where["metrics"])).text
    assert 'shortfirst_rank_requests_total{code="OK",method="Rank"} 1.0' in page
    assert 'shortfirst_rank_requests_total{code="INVALID_ARGUMENT",method="Rank"} 1.0' in page
    assert 'shortfirst_rank_request_duration_seconds_count{method="Rank"} 2.0' in page
    stop.receive()
    await task
    line = json.loads(capsys.readouterr().out)
    assert line.pop("event") == "ready"
    assert line == where
    assert list(file.parent.iterdir()) == [file]


async def test_a_promoted_ranker_takes_over_and_a_broken_one_does_not(tmp_path: Path) -> None:
    stop, shelf, file = StopSignal(), Shelf(), tmp_path / "ready.json"
    task = start_rank(file, stop, MemorySink(), shelf, reload_s=0.01)
    where = await ready(file, task)
    async with grpc.aio.insecure_channel(where["grpc"]) as channel:
        stub = rank_pb2_grpc.RankServiceStub(channel)

        async def version() -> str:
            item = rank_pb2.RankItem(id="a", prompt="one")
            return str((await stub.Rank(rank_pb2.RankRequest(items=[item]))).ranker.version)

        assert await version() == "1"
        shelf.champion = "3"
        async with asyncio.timeout(20):
            while await version() != "3":
                await asyncio.sleep(0.005)
        shelf.broken.add("4")
        shelf.champion = "4"
        async with asyncio.timeout(20):
            while shelf.tried.count("4") < 2:
                await asyncio.sleep(0.005)
        assert await version() == "3"
    stop.receive()
    await task


def test_only_an_alias_is_followed() -> None:
    assert follows_alias("models:/length-ranker@champion")
    assert not follows_alias("models:/length-ranker/3")
    assert not follows_alias("/some/folder")


async def test_acknowledged_outcomes_are_in_the_monitored_store(tmp_path: Path, outcome) -> None:  # type: ignore[no-untyped-def]
    store = tmp_path / "outcomes.db"
    sink = MonitoredStore.open(store, tmp_path / "events.jsonl", time.time)
    registry = CollectorRegistry()
    registry.register(DriftCollector(sink))
    stop, file = StopSignal(), tmp_path / "ready.json"
    task = start_rank(file, stop, sink, registry=registry)
    where = await ready(file, task)
    from serving.messages import outcome_message

    async with grpc.aio.insecure_channel(where["grpc"]) as channel:
        stub = rank_pb2_grpc.RankServiceStub(channel)
        messages = [outcome_message(outcome(f"r{i}", output_tokens=i)) for i in range(20)]
        request = rank_pb2.ReportOutcomesRequest(outcomes=messages)
        assert (await stub.ReportOutcomes(request)).stored == 20
        assert (await stub.ReportOutcomes(request)).duplicates == 20
    # What was acknowledged can be read by somebody else while the service still runs.
    reader = OutcomeStore(store, create=False)
    assert [o.output_tokens for o in reader.by_report()] == list(range(20))
    reader.close()
    async with httpx.AsyncClient() as client:
        page = (await client.get(where["metrics"])).text
    assert 'served_model="sharegpt"} 20.0' in page
    stop.receive()
    await task
    sink.close()


async def test_an_engine_ranks_serves_and_reports(tmp_path: Path) -> None:
    sink, rank_stop, engine_stop = MemorySink(), StopSignal(), StopSignal()
    rank_task = start_rank(tmp_path / "rank.json", rank_stop, sink)
    rank = await ready(tmp_path / "rank.json", rank_task)
    ranking = RankClientConfig(rank["grpc"], 5.0)
    task = start_engine(
        tmp_path / "engine.json", engine_stop, lambda b: None, rank=ranking, rank_model="sharegpt"
    )
    engine = await ready(tmp_path / "engine.json", task)
    async with grpc.aio.insecure_channel(engine["grpc"]) as channel:
        stub = generate_pb2_grpc.GenerateServiceStub(channel)
        call = stub.Generate(generate_pb2.GenerateRequest(prompt="one two", request_id="r1"))
        assert [r.finish.scored async for r in call][-1]
    async with httpx.AsyncClient() as client:
        body = {"prompt": "one two three"}
        answer = await client.post(engine["http"] + "/v1/completions", json=body)
        assert answer.json()["shortfirst"]["scored"]
        page = (await client.get(engine["metrics"])).text
    assert 'shortfirst_engine_forecasts_total{result="scored"} 2.0' in page
    engine_stop.receive()
    await task
    # Leaving delivers what was buffered.
    assert len(sink.outcomes) == 2
    reported = sink.outcomes["r1"]
    assert (reported.output_tokens, reported.finish_reason) == (3, FinishReason.STOP)
    assert reported.forecast is not None
    assert reported.forecast.version == "1"
    rank_stop.receive()
    await rank_task


async def test_a_stop_lets_streams_end_and_a_second_one_cuts_them(tmp_path: Path) -> None:
    for signals, expected in ((1, FinishReason.STOP), (2, FinishReason.ABORT)):
        backends: list[WordBackend] = []
        seen: list[Outcome] = []
        held = asyncio.Event()

        def made(
            backend: WordBackend,
            backends: list[WordBackend] = backends,
            seen: list[Outcome] = seen,
            held: asyncio.Event = held,
        ) -> None:
            backend.held, backend.on_outcome = held, seen.append
            backends.append(backend)

        stop, file = StopSignal(), tmp_path / f"{signals}.json"
        task = start_engine(file, stop, made)
        where = await ready(file, task)
        async with grpc.aio.insecure_channel(where["grpc"]) as channel:
            stub = generate_pb2_grpc.GenerateServiceStub(channel)
            call = stub.Generate(generate_pb2.GenerateRequest(prompt="one"))
            assert (await call.read()).chunk.text == "w0 "
            for _ in range(signals):
                stop.receive()
            if signals == 1:
                held.set()
                texts = []
                while (message := await call.read()) is not grpc.aio.EOF:
                    texts.append(message.chunk.text)
                assert "".join(texts) == "w1 w2 "
            await task
        if expected is FinishReason.ABORT:
            assert len(backends[0].aborted) == 1
        else:
            assert [o.finish_reason for o in seen] == [expected]


async def test_an_engine_that_dies_ends_its_process_with_an_error(tmp_path: Path) -> None:
    backends: list[WordBackend] = []
    task = start_engine(tmp_path / "ready.json", StopSignal(), backends.append)
    await ready(tmp_path / "ready.json", task)
    backends[0].alive = False
    with pytest.raises(EngineStopped):
        await asyncio.wait_for(task, 20)


async def test_an_engine_without_its_rank_service_is_ready_all_the_same(tmp_path: Path) -> None:
    stop = StopSignal()
    ranking = RankClientConfig(f"127.0.0.1:{free_port()}", breaker=BreakerConfig(failures=1))
    task = start_engine(tmp_path / "ready.json", stop, lambda b: None, rank=ranking)
    where = await ready(tmp_path / "ready.json", task)
    async with httpx.AsyncClient() as client:
        answer = await client.post(where["http"] + "/v1/completions", json={"prompt": "x"})
        assert answer.json()["shortfirst"]["scored"] is False
    stop.receive()
    await asyncio.wait_for(task, 20)


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    stop = StopSignal()
    task = start_rank(tmp_path / "ready.json", stop, MemorySink())
    where = await ready(tmp_path / "ready.json", task)
    port = int(where["grpc"].rpartition(":")[2])
    metrics_port = int(where["metrics"].rpartition(":")[2].partition("/")[0])
    for taken in ({"port": port}, {"metrics_port": metrics_port}):
        second = start_rank(tmp_path / "second.json", StopSignal(), MemorySink(), **taken)
        with pytest.raises(OSError, match=r"127\.0\.0\.1") as caught:
            await second
        assert str(next(iter(taken.values()))) in str(caught.value)
    for taken in ({"http_port": port}, {"grpc_port": port}):
        engine = start_engine(tmp_path / "e.json", StopSignal(), lambda b: None, **taken)
        with pytest.raises(OSError, match=str(port)):
            await engine
    assert not (tmp_path / "second.json").exists()
    stop.receive()
    await task


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: RankServerConfig(port=70_000), "port"),
        (lambda: RankServerConfig(host=""), "host"),
        (lambda: RankServerConfig(reload_s=-1), "reload_s"),
        (lambda: RankServerConfig(reload_s=math.nan), "reload_s"),
        (lambda: RankServerConfig(drain_s=-1), "drain_s"),
        (lambda: EngineServerConfig(drain_s=math.nan), "drain_s"),
        (lambda: EngineServerConfig(drain_s=math.inf), "drain_s"),
        (lambda: EngineServerConfig(http_port=-1), "http_port"),
        (lambda: EngineServerConfig(host=""), "host"),
        (lambda: Rankers({}), "rankers"),
        (lambda: Rankers({"a": WordRanker()}, default="b"), "default"),
    ],
)
def test_a_bad_setting_is_named(make: Callable[[], object], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()
