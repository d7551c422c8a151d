"""A rank server with its dashboard, and traffic of several tenants reported to it over gRPC."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
from prometheus_client import CollectorRegistry

from drift.config import MonitorConfig
from drift.history import History
from drift.metrics import DriftCollector
from drift.sink import MonitoredStore
from drift.tell import Teller
from drift.valuer import ValueConfig
from ranker.types import Outcome
from serving import rank_server
from serving.dashboard.document import Reading
from serving.drain import StopSignal
from serving.messages import outcome_message, set_time
from serving.rank_server import RankServerConfig
from serving.rankers import Rankers
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc
from tests.drift.conftest import make_stream
from tests.serving.parts import SECRET, WordRanker
from tests.serving.server_parts import ready

TENANTS = ("acme", "globex", "initech")

#: Small enough that a second's worth of traffic fills everything.
QUICK = MonitorConfig.from_mapping(
    {"window": 300, "every": 20, "reference_first": 200, "reference_most": 200,
     "least": 100, "fcfs_least": 200, "slices": {"least": 60}}
)  # fmt: skip


@dataclass
class Running:
    """Addresses of a server that runs, and what its sink keeps."""

    grpc: str
    page: str
    sink: MonitoredStore
    history: Path
    stop: StopSignal

    async def report(self, outcomes: Sequence[Outcome], reporter: str = "engine-1") -> None:
        """As an engine does."""
        async with grpc.aio.insecure_channel(
            self.grpc, options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            stub = rank_pb2_grpc.RankServiceStub(channel)
            for first in range(0, len(outcomes), 500):
                batch = outcomes[first : first + 500]
                message = rank_pb2.ReportOutcomesRequest(
                    outcomes=[outcome_message(o) for o in batch], reporter=reporter
                )
                set_time(message.sent_time, time.time())
                await stub.ReportOutcomes(message)

    async def rank(self) -> None:
        """Ask for a forecast of a prompt that nobody may see again."""
        async with grpc.aio.insecure_channel(self.grpc) as channel:
            item = rank_pb2.RankItem(id="1", prompt=f"{SECRET} and more")
            stub = rank_pb2_grpc.RankServiceStub(channel)
            await stub.Rank(rank_pb2.RankRequest(items=[item]))


@asynccontextmanager
async def serving(
    folder: Path,
    value: ValueConfig | None = None,
    port: int = 0,
    shadows: Sequence[Mapping[str, Any]] = (),
    retraining: Sequence[Mapping[str, Any]] = (),
) -> AsyncIterator[Running]:
    """The real thing in this loop, over files in ``folder``; ``shadows`` and ``retraining`` are
    what a shadower and a retrainer would say."""
    history = History(folder / "history.db")
    teller = Teller(history, None, time.time)
    sink = MonitoredStore.open(
        folder / "o.db",
        folder / "e.jsonl",
        time.time,
        QUICK,
        teller,
        value or ValueConfig(every=250, rest=1e9),  # large series are replayed, once
    )
    registry = CollectorRegistry()
    registry.register(DriftCollector(sink))
    stop, file = StopSignal(), folder / "ready.json"
    file.unlink(missing_ok=True)
    task = asyncio.create_task(
        rank_server.run(
            RankServerConfig(port=0, metrics_port=port),
            Rankers({"sharegpt": WordRanker()}),
            sink,
            registry,
            watched=[],
            source=None,
            read=Reading(sink.board, history.path, lambda: shadows, lambda: retraining),
            ready_file=file,
            stop=stop,
        )
    )
    try:
        where = await ready(file, task)
        yield Running(where["grpc"], where["dashboard"], sink, history.path, stop)
    finally:
        stop.receive()
        await task
        sink.close()
        history.close()


def traffic(n: int, tau: float, seed: int, start: int = 0, **changes: str) -> list[Outcome]:
    """Outcomes of three tenants that ended just now; ``start``: how many came before."""
    made = make_stream(n, tau, seed, start=start, served_model="chat")
    begin = time.time() - 7200.0 - made[0].arrival + start
    return [
        replace(
            o,
            arrival=o.arrival + begin,
            finished=o.finished + begin,
            **{"tenant": TENANTS[(i * i) % 3 if i % 4 else 2], **changes},
        )
        for i, o in enumerate(made)
    ]
