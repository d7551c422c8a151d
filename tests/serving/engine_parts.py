"""A backend whose tokens are words, and the engine's front around it on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx
from prometheus_client import CollectorRegistry

from engine.events import Dead, Ended, InUse, LaneInfo, Latencies, Overloaded, Tokens
from engine.pace import Cause, Pace
from engine.readings import Reading
from engine.sampling import SamplingParams
from engine.token import Token
from ranker.types import FinishReason, Forecast, Outcome
from serving.drain import Gate
from serving.generate_service import GenerateService
from serving.generator import Forecaster, Generator, GeneratorConfig
from serving.grpc_server import GrpcServer
from serving.http_server import HttpServer
from serving.limits import Limits
from serving.metrics import EngineMetrics
from serving.openai_http import OpenAI
from serving.snapshot import Snapshot
from serving.story import Traces
from shortfirst.generate.v1 import generate_pb2, generate_pb2_grpc

#: What every answer of a :class:`WordBackend` is said to have taken.
TIMES = Latencies(ttft=0.75, tpot=0.5, e2el=1.75)
PACE = Pace(2, 0.5, 0.25, 0.75, 0.75, {Cause.PREFILL: 0.25})


@dataclass
class WordBackend:
    """Answers ``w0 w1 w2 ...``; stops by itself after ``own`` words unless told to ignore that."""

    on_outcome: Callable[[Outcome], None] = lambda outcome: None
    model: str = "tiny"
    context_length: int = 64
    own: int = 3
    max_running: int = 1000
    alive: bool = True
    held: asyncio.Event | None = None  #: tokens after the first wait for it
    broken_after: int | None = None
    submitted: dict[str, tuple[SamplingParams, Forecast | None, str]] = field(default_factory=dict)
    running: dict[str, asyncio.Event] = field(default_factory=dict)
    aborted: list[str] = field(default_factory=list)
    leaving: set[str] = field(default_factory=set)  #: ids that it has yet to forget
    lanes: tuple[LaneInfo, ...] = (LaneInfo("chat"), LaneInfo("batch", priorities=True))
    retry_after: float | None = None  #: what it says of a full queue
    template: dict[str, Any] = field(default_factory=dict)
    placed: dict[str, tuple[str, int]] = field(default_factory=dict)  #: lane and priority
    stats_help: Mapping[str, str] = field(
        default_factory=lambda: {
            "shortfirst_engine_num_requests_running": "Requests that run.",
            "shortfirst_engine_lane_requests_total": "Requests that ended.",
        }
    )

    def encode(self, prompt: str) -> list[int]:
        return [len(word) for word in prompt.split()]

    def encode_chat(self, turns: Sequence[tuple[str, str]], **template: Any) -> list[int]:
        self.template = template
        if turns[-1][0] != "user":
            raise ValueError("the last message must come from the user")
        return [0, *(len(word) for _, text in turns for word in text.split())]

    def text(self, token_ids: Sequence[int]) -> str:
        return "".join(f"t{token} " for token in token_ids)

    def token_bytes(self, token: int) -> bytes:
        return f"w{token} ".encode()

    async def submit(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        sampling: SamplingParams,
        forecast: Forecast | None,
        tenant: str,
        arrival: float,
        lane: str = "",
        priority: int = 0,
    ) -> AsyncIterator[Tokens | Ended]:
        if not self.alive:
            raise Dead
        if len(self.running) >= self.max_running:
            raise Overloaded(f"lane {lane} is full", self.retry_after)
        if request_id in self.leaving:
            raise InUse
        self.submitted[request_id] = (sampling, forecast, tenant)
        self.placed[request_id] = (lane, priority)
        self.running[request_id] = asyncio.Event()
        return self._events(request_id, len(prompt_ids), sampling, forecast)

    async def _events(
        self, request_id: str, prompt: int, sampling: SamplingParams, forecast: Forecast | None
    ) -> AsyncIterator[Tokens | Ended]:
        assert sampling.max_tokens is not None
        stops = not sampling.ignore_eos and self.own <= sampling.max_tokens
        count = self.own if stops else sampling.max_tokens
        reason, made = FinishReason.STOP if stops else FinishReason.LENGTH, 0
        gone = self.running[request_id]
        for i in range(count):
            if i == self.broken_after:
                reason = FinishReason.ERROR
                break
            if i and self.held is not None:
                waits = [asyncio.ensure_future(e.wait()) for e in (self.held, gone)]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for wait in waits:
                    wait.cancel()
            if gone.is_set():
                reason = FinishReason.ABORT
                break
            made += 1
            yield Tokens(f"w{i} ", (self._token(i, sampling),), self._told(prompt, sampling, i))
        self.running.pop(request_id, None)
        self.on_outcome(Outcome(request_id, self.model, made, reason, 1.0, 2.0, prompt, forecast))
        lane = self.placed[request_id][0] or self.lanes[0].name
        yield Ended(
            reason, prompt, made, forecast is not None, 0.25, 0, prompt - 1, lane, TIMES, PACE
        )

    def _token(self, i: int, sampling: SamplingParams) -> Token:
        """Odd seeds make likelier answers."""
        if sampling.logprobs is None:
            return Token(i)
        logprob = -0.5 if (sampling.seed or 0) % 2 else -1.5
        return Token(i, logprob, tuple((9 - k, -1.0 - k) for k in range(sampling.logprobs)))

    def _told(self, prompt: int, sampling: SamplingParams, i: int) -> tuple[Token, ...]:
        if sampling.prompt_logprobs is None or i:
            return ()
        later = (Token(7, -2.0, ((7, -2.0),)[: sampling.prompt_logprobs]),) * (prompt - 1)
        return (Token(7), *later)

    def abort(self, request_id: str) -> None:
        if (gone := self.running.pop(request_id, None)) is not None:
            self.aborted.append(request_id)
            gone.set()

    def position(self, request_id: str) -> int | None:
        return list(self.running).index(request_id) if request_id in self.running else None

    def under_way(self) -> list[Outcome]:
        return []

    def stats(self) -> list[Reading]:
        total = Reading("shortfirst_engine_num_requests_running", len(self.running))
        name = "shortfirst_engine_lane_requests_total"
        return [total, *(Reading(name, 1.0, (("lane", lane.name),)) for lane in self.lanes)]

    def close(self) -> None:
        for request_id in list(self.running):
            self.abort(request_id)


@dataclass
class Front:
    backend: WordBackend
    gate: Gate
    grpc: str
    http: str
    stub: generate_pb2_grpc.GenerateServiceStub
    channel: grpc.aio.Channel
    client: httpx.AsyncClient
    stop: Callable[[], Awaitable[None]]  #: of the HTTP server, as after a drain

    async def until_running(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.backend.running) != count:
                await asyncio.sleep(0.002)


@asynccontextmanager
async def serve_front(
    backend: WordBackend | None = None,
    forecaster: Forecaster | None = None,
    traces: Traces | None = None,
) -> AsyncIterator[Front]:
    backend, limits, registry = backend or WordBackend(), Limits(), CollectorRegistry()
    registry.register(Snapshot(backend.stats, backend.stats_help))
    config = GeneratorConfig(rank_model="sharegpt")
    generator = Generator(
        backend, forecaster, EngineMetrics(registry), config, limits, traces=traces
    )
    gate = Gate()
    service = GenerateService(generator, limits)
    http = HttpServer(OpenAI(generator, gate, registry, limits).app(), "127.0.0.1", 0)
    rpc = GrpcServer(
        "127.0.0.1:0",
        generate_pb2.DESCRIPTOR.services_by_name["GenerateService"],
        lambda s: generate_pb2_grpc.add_GenerateServiceServicer_to_server(service, s),
        gate,
        limits,
    )
    grpc_address, http_address = await rpc.start(), await http.start()
    await rpc.set_serving()
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    try:
        async with (
            grpc.aio.insecure_channel(grpc_address, options=options) as channel,
            httpx.AsyncClient(base_url=f"http://{http_address}", timeout=30) as client,
        ):
            stub = generate_pb2_grpc.GenerateServiceStub(channel)
            yield Front(backend, gate, grpc_address, http_address, stub, channel, client, http.stop)
    finally:
        await rpc.stop()
        await http.stop()
        generator.close()
