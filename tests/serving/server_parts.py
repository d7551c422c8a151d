"""Both services started in the test's own loop, on free ports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry

from ranker.types import Outcome, Ranker
from serving import engine_server, rank_server
from serving.drain import StopSignal
from serving.engine_server import EngineServerConfig
from serving.rank_server import RankServerConfig
from serving.rankers import Rankers, Watched
from tests.serving.engine_parts import WordBackend
from tests.serving.parts import WordRanker


@dataclass
class Shelf:
    """A registry of word rankers by version."""

    champion: str = "1"
    broken: set[str] = field(default_factory=set)
    tried: list[str] = field(default_factory=list)

    def load(self, uri: str) -> Ranker:
        version = uri.rpartition("/")[2]
        self.tried.append(version)
        if version in self.broken:
            raise OSError(5, "Input/output error")
        return WordRanker(version=version)

    def resolve(self, name: str, alias: str) -> str | None:
        return self.champion if alias == "champion" else None


async def ready(path: Path, task: asyncio.Task[None]) -> dict[str, str]:
    async with asyncio.timeout(20):
        while not path.exists():
            assert not task.done(), task.result()
            await asyncio.sleep(0.005)
    return json.loads(path.read_text(encoding="utf-8"))


def start_rank(
    ready_file: Path, stop: StopSignal, sink: rank_server.OutcomeSink, shelf: Shelf | None = None,
    registry: CollectorRegistry | None = None, **config: object,
) -> asyncio.Task[None]:  # fmt: skip
    settings = RankServerConfig(**{"port": 0, "metrics_port": 0, **config})  # type: ignore[arg-type]
    return asyncio.create_task(
        rank_server.run(
            settings,
            Rankers({"sharegpt": WordRanker()}),
            sink,
            registry or CollectorRegistry(),
            watched=[Watched("models:/words@champion", "sharegpt", "1")] if shelf else [],
            source=shelf,
            ready_file=ready_file,
            stop=stop,
        )
    )


def start_engine(
    ready_file: Path, stop: StopSignal, made: Callable[[WordBackend], None], **config: object
) -> asyncio.Task[None]:
    def backend(on_outcome: Callable[[Outcome], None]) -> WordBackend:
        built = WordBackend(on_outcome)
        made(built)
        return built

    settings = EngineServerConfig(**{"grpc_port": 0, "http_port": 0, **config})  # type: ignore[arg-type]
    return asyncio.create_task(
        engine_server.run(settings, backend, CollectorRegistry(), ready_file=ready_file, stop=stop)
    )
