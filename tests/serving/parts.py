"""Small parts for tests that are about the services around them, and servers on free ports."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from drift.delivery import Delivery, Receipt
from ranker.types import Forecast, Outcome
from serving.batcher import Batcher, BatcherConfig
from serving.drain import Gate
from serving.grpc_server import GrpcServer
from serving.guide import Guide
from serving.limits import Limits
from serving.rank_service import RankService
from serving.ranked import Consumer
from serving.rankers import Rankers
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc

#: Words that must not show up in any log, metric or error.
SECRET = "xyzzy-private-prompt"


@dataclass
class WordRanker:
    """Forecasts as many tokens as the prompt has words, give or take half."""

    served_model: str = "sharegpt"
    name: str = "words"
    version: str = "1"
    novelty: float = 0.0
    trust: float = 1.0
    sketch: tuple[float, ...] = ()
    batches: list[int] = field(default_factory=list)
    gate: threading.Event | None = None
    started: threading.Event = field(default_factory=threading.Event)

    def forecast(self, prompts: Sequence[str]) -> list[Forecast]:
        self.batches.append(len(prompts))
        self.started.set()
        if self.gate is not None:
            self.gate.wait(30)
        answers = []
        for prompt in prompts:
            if "poison" in prompt:
                raise KeyError(prompt)
            words = float(len(prompt.split()))
            spread = (words / 2, words, words * 1.5)
            levels = (0.1, 0.5, 0.9)
            by = self.name, self.version
            told = levels, self.novelty, self.trust, self.sketch
            answers.append(Forecast(words, spread, *by, *told))
        return answers


@dataclass
class MemorySink:
    """Keeps outcomes by id; ``broken`` is raised, as a full disk does."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    broken: Exception | None = None
    deliveries: list[Delivery] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def receive(self, delivery: Delivery, received: float) -> Receipt:
        if self.broken is not None:
            raise self.broken
        self.deliveries.append(delivery)
        new = {o.request_id: o for o in delivery.outcomes if o.request_id not in self.outcomes}
        self.outcomes.update(new)
        return Receipt(len(new), len(delivery.outcomes) - len(new), 0)

    def ranked(self, served_model: str, forecasts: Sequence[Forecast], now: float) -> None:
        self.scores += [forecast.score for forecast in forecasts]


@dataclass
class RankServer:
    address: str
    ranker: WordRanker
    sink: MemorySink
    gate: Gate
    server: GrpcServer
    rankers: Rankers
    calls: list[tuple[str, str]]
    fallbacks: list[int]
    channel: grpc.aio.Channel

    @property
    def stub(self) -> rank_pb2_grpc.RankServiceStub:
        return rank_pb2_grpc.RankServiceStub(self.channel)


@asynccontextmanager
async def serve_rank(
    ranker: WordRanker | None = None,
    sink: MemorySink | None = None,
    address: str = "127.0.0.1:0",
    batching: BatcherConfig | None = None,
    limits: Limits | None = None,
    ranked: Sequence[Consumer] = (),
    guide: Guide | None = None,
) -> AsyncIterator[RankServer]:
    """A real server on a real socket."""
    ranker, sink, limits = ranker or WordRanker(), sink or MemorySink(), limits or Limits()
    rankers = Rankers({ranker.served_model: ranker})
    batcher, gate = Batcher(batching), Gate()
    calls: list[tuple[str, str]] = []
    fallbacks: list[int] = []
    service = RankService(
        rankers, batcher, sink, limits, fell_back=fallbacks.append, ranked=ranked, guide=guide
    )
    server = GrpcServer(
        address,
        rank_pb2.DESCRIPTOR.services_by_name["RankService"],
        lambda s: rank_pb2_grpc.add_RankServiceServicer_to_server(service, s),
        gate,
        limits,
        lambda method, code, seconds: calls.append((method.rpartition("/")[2], code)),
    )
    bound = await server.start()
    await server.set_serving()
    # Test servers come and go on one port; a shared pool would hand out a dead connection.
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(bound, options=options) as channel:
        try:
            yield RankServer(bound, ranker, sink, gate, server, rankers, calls, fallbacks, channel)
        finally:
            await server.stop()
            await batcher.close()
            service.close()


def free_port() -> int:
    """A port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def refused(call: object) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    assert SECRET not in (caught.value.details() or "")
    return caught.value


def fields(error: grpc.aio.AioRpcError) -> list[str]:
    status = rpc_status.from_call(error)
    names = []
    for detail in status.details if status else ():
        bad = error_details_pb2.BadRequest()
        if detail.Unpack(bad):
            names += [v.field for v in bad.field_violations]
    return names
