"""The real engine loop, its model replaced by a script, behind the real server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx
from prometheus_client import CollectorRegistry

from engine.core import policies
from engine.core.plan import Plan
from engine.core.scheduler import Scheduler
from engine.events import LaneInfo
from engine.loop import EngineLoop
from engine.readings import Distribution, Reading
from engine.sampling import SamplingParams
from engine.stats import HELP
from engine.stop import StopRule
from engine.stream import Stream
from ranker.types import Forecast, Outcome
from serving import engine_server
from serving.drain import StopSignal
from serving.engine_server import EngineServerConfig
from shortfirst.generate.v1 import generate_pb2, generate_pb2_grpc
from tests.engine.torch.scripted import CONFIG, EOS, Script, decode, texts
from tests.serving.server_parts import ready


class Stepped(Script):
    """Takes a step when one is permitted: ``permit.release()``."""

    def __init__(self, length: int = 6) -> None:
        super().__init__(length)
        self.permit = threading.Semaphore(0)
        self.steps = 0  #: that began
        self.done = 0  #: that are over

    def run(self, plan: Plan):  # type: ignore[no-untyped-def]
        self.steps += 1
        assert self.permit.acquire(timeout=30)
        try:
            return super().run(plan)
        finally:
            self.done += 1

    def open(self) -> None:
        """As many steps as are wanted."""
        self.permit.release(10_000)


class LoopBackend:
    model = "tiny"
    context_length = 100
    lanes = (LaneInfo("default"),)
    stats_help = HELP

    def __init__(self, executor: Script, on_outcome: Callable[[Outcome], None]) -> None:
        self.scheduler = Scheduler(CONFIG, policies.make("fcfs"))
        self.loop = EngineLoop(
            self.scheduler, executor, StopRule({EOS}, 100), texts,
            served_model="tiny", on_outcome=on_outcome,
        )  # fmt: skip
        self.loop.start()

    @property
    def alive(self) -> bool:
        return self.loop.alive

    def encode(self, prompt: str) -> list[int]:
        return [1 for _ in prompt.split()]

    def encode_chat(self, turns: Sequence[tuple[str, str]], **template: object) -> list[int]:
        return [1 for _, text in turns for _ in text.split()]

    def text(self, token_ids: Sequence[int]) -> str:
        return decode(token_ids)

    def token_bytes(self, token: int) -> bytes:
        return decode([token]).encode()

    async def submit(
        self, request_id: str, prompt_ids: Sequence[int], sampling: SamplingParams,
        forecast: Forecast | None, tenant: str, arrival: float, lane: str = "", priority: int = 0,
    ) -> Stream:  # fmt: skip
        return await self.loop.submit(
            request_id, prompt_ids, sampling, forecast, tenant, arrival, lane, priority
        )

    def abort(self, request_id: str) -> None:
        self.loop.abort(request_id)

    def position(self, request_id: str) -> int | None:
        return self.loop.position(request_id)

    def under_way(self) -> list[Outcome]:
        return self.loop.under_way()

    def stats(self) -> list[Reading | Distribution]:
        stats = self.loop.stats()
        return [*stats.readings(), stats.step_tokens]

    def close(self) -> None:
        self.loop.close()


@dataclass
class Running:
    """A server under way, and a client of each protocol."""

    script: Stepped
    backend: LoopBackend
    stop: StopSignal
    task: asyncio.Task[None]
    http: httpx.AsyncClient
    channel: grpc.aio.Channel

    @property
    def stub(self) -> generate_pb2_grpc.GenerateServiceStub:
        return generate_pb2_grpc.GenerateServiceStub(self.channel)

    def generate(self, prompt: str = "one two", **fields: object) -> grpc.aio.UnaryStreamCall:
        return self.stub.Generate(generate_pb2.GenerateRequest(prompt=prompt, **fields))

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not done():
                await asyncio.sleep(0.002)


@asynccontextmanager
async def serve_loop(folder: Path, **config: object) -> AsyncIterator[Running]:
    """The server as the command runs it, but for the model. Ends it, if it still runs."""
    script, made, stop = Stepped(), [], StopSignal()
    backends: list[LoopBackend] = made

    def start(on_outcome: Callable[[Outcome], None]) -> LoopBackend:
        backends.append(LoopBackend(script, on_outcome))
        return backends[0]

    settings = EngineServerConfig(**{"grpc_port": 0, "http_port": 0, **config})  # type: ignore[arg-type]
    file = folder / "ready.json"
    task = asyncio.create_task(
        engine_server.run(settings, start, CollectorRegistry(), ready_file=file, stop=stop)
    )
    where = await ready(file, task)
    options = [("grpc.use_local_subchannel_pool", 1)]
    try:
        async with (
            httpx.AsyncClient(base_url=where["http"], timeout=30) as http,
            grpc.aio.insecure_channel(where["grpc"], options=options) as channel,
        ):
            yield Running(script, backends[0], stop, task, http, channel)
    finally:
        script.open()
        stop.receive()
        stop.receive()
        await asyncio.wait({task}, timeout=20)
