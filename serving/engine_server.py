"""The engine as a process: front, ranking and loop wired together, from ready to drained."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from drift.opened import Open
from ranker.types import Outcome
from serving import report_metrics
from serving.backend import Backend
from serving.drain import Gate, StopSignal, drain
from serving.generate_service import GenerateService
from serving.generator import Generator, GeneratorConfig
from serving.grpc_server import GrpcServer
from serving.http_server import HttpServer, bracketed
from serving.limits import Limits
from serving.metrics import EngineMetrics
from serving.openai_http import OpenAI
from serving.rank_client import RankClient, RankClientConfig
from serving.rank_server import check_ports, check_seconds
from serving.ready import announce
from serving.snapshot import Snapshot
from serving.story import Traces
from shortfirst.generate.v1 import generate_pb2, generate_pb2_grpc

log = logging.getLogger(__name__)

#: Starts the backend; it calls the function it is given, from any thread, with each outcome.
StartBackend = Callable[[Callable[[Outcome], None]], Backend]


#: How long streams that are over may take to be written.
_LAST_S = 1.0


class EngineStopped(RuntimeError):
    """The backend ended by itself; the process should be started again."""


@dataclass(frozen=True, slots=True)
class EngineServerConfig:
    """Ports may be 0: any free one. ``rank`` is ``None`` when nothing ranks.

    ``rank_model``: the served model under which the rank service knows this one; empty means the
    service's own. ``report``: tell the rank service how long answers became; off when clients
    impose lengths, as benchmarks do, which are no lengths of the model.
    """

    host: str = "127.0.0.1"
    grpc_port: int = 50052
    http_port: int = 8000
    drain_s: float = 30.0
    rank: RankClientConfig | None = None
    rank_model: str = ""
    report: bool = True
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        check_ports(self)
        if not self.host:
            raise ValueError("host must not be empty; 127.0.0.1 keeps the engine on this machine")
        check_seconds("drain_s", self.drain_s)


async def run(
    config: EngineServerConfig,
    start_backend: StartBackend,
    registry: CollectorRegistry,
    *,
    facts: Mapping[str, str] | None = None,
    ready_file: Path | None = None,
    stop: StopSignal | None = None,
    traces: Traces | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain. ``facts`` are announced with the addresses.

    Raises ``OSError`` when a port is taken and ``EngineStopped`` when the backend ends by itself.
    """
    if stop is None:
        stop = StopSignal()
        stop.install()
    metrics = EngineMetrics(registry)
    async with contextlib.AsyncExitStack() as stack:
        # Closed in reverse: the front first, then the backend, and outcomes are delivered last.
        ranks = None
        if config.rank is not None:
            ranks = await stack.enter_async_context(RankClient(config.rank, metrics.asked))
        reports = ranks if config.report else None
        backend = start_backend(_reporter(reports, config.rank_model))
        # In a thread: it waits for the step at hand, and what it reports must get through.
        stack.push_async_callback(asyncio.to_thread, backend.close)
        registry.register(Snapshot(backend.stats, backend.stats_help))
        if reports is not None:
            reports.watch(lambda: _under_way(backend, config.rank_model))
            registry.register(
                Snapshot(partial(report_metrics.readings, reports.reporter), report_metrics.HELP)
            )
        generator = Generator(
            backend, ranks, metrics, GeneratorConfig(rank_model=config.rank_model), config.limits,
            traces=traces,
        )  # fmt: skip
        stack.callback(generator.close)
        await _serve(config, generator, registry, stop, stack, facts or {}, ready_file)


async def _serve(
    config: EngineServerConfig,
    generator: Generator,
    registry: CollectorRegistry,
    stop: StopSignal,
    stack: contextlib.AsyncExitStack,
    facts: Mapping[str, str],
    ready_file: Path | None,
) -> None:
    gate = Gate()
    service = GenerateService(generator, config.limits)
    http = HttpServer(
        OpenAI(generator, gate, registry, config.limits).app(), config.host, config.http_port
    )
    stack.push_async_callback(http.stop)
    rpc = GrpcServer(
        f"{bracketed(config.host)}:{config.grpc_port}",
        generate_pb2.DESCRIPTOR.services_by_name["GenerateService"],
        lambda s: generate_pb2_grpc.add_GenerateServiceServicer_to_server(service, s),
        gate,
        config.limits,
    )
    stack.push_async_callback(rpc.stop)
    grpc_address = await rpc.start()
    http_address = await http.start()
    await rpc.set_serving()
    base = f"http://{http_address}"
    addresses = {"grpc": grpc_address, "http": base, "metrics": f"{base}/metrics"}
    announce({**facts, **addresses}, ready_file)
    stopped = await _until_asked(stop, generator)
    await rpc.leave()
    # A dead engine has ended its streams; they only have to be written.
    if not await drain(gate, stop, _LAST_S if stopped else config.drain_s):
        log.warning("%d requests were cut off", gate.inside)
        generator.cut()
        await gate.wait_empty(_LAST_S)
    if stopped:
        raise EngineStopped("the engine loop ended by itself; the log says why")


async def _until_asked(stop: StopSignal, generator: Generator) -> bool:
    """Wait for a stop; true when the backend ended before one came."""
    while generator.ready:
        try:
            await asyncio.wait_for(stop.asked.wait(), 0.5)
        except TimeoutError:
            continue
        return False
    return True


def _reporter(ranks: RankClient | None, rank_model: str) -> Callable[[Outcome], None]:
    if ranks is None:
        return lambda outcome: None
    loop = asyncio.get_running_loop()

    def report(outcome: Outcome) -> None:
        # Forecast and outcome must meet under one name.
        outcome = replace(outcome, served_model=rank_model)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody can deliver it
            loop.call_soon_threadsafe(ranks.report, [outcome])

    return report


def _under_way(backend: Backend, rank_model: str) -> list[Open]:
    """Of all that has not ended, its tokens so far."""
    return [
        Open(
            o.request_id,
            rank_model,
            o.output_tokens,
            o.arrival,
            o.finished,
            o.prompt_tokens,
            o.forecast,
            o.tenant,
            o.lane,
        )
        for o in backend.under_way()
    ]
