"""The rank service as a process: its parts wired together, from ready to drained."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from serving.batcher import Batcher, BatcherConfig
from serving.dashboard.routes import PATH, Dashboard
from serving.drain import Gate, StopSignal, drain
from serving.grpc_server import GrpcServer
from serving.guide import Guide
from serving.heard import Heard
from serving.hosts import HostCheck, Hosts
from serving.http_server import HttpServer, bracketed
from serving.limits import Limits
from serving.metrics import RankMetrics
from serving.rank_http import rank_app
from serving.rank_service import OutcomeSink, RankService
from serving.ranked import Consumer
from serving.rankers import Rankers, Source, Swap, Watched, follow
from serving.ready import announce
from serving.shadow import Shadower
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc


@dataclass(frozen=True, slots=True)
class RankServerConfig:
    """``port`` and ``metrics_port`` may be 0: any free one; the dashboard is at the second.
    ``reload_s`` 0 turns reloading off. ``allow_hosts``: names that the second port may be asked by,
    besides addresses and localhost (``serving.hosts``)."""

    host: str = "127.0.0.1"
    port: int = 50051
    metrics_port: int = 9464
    reload_s: float = 5.0
    drain_s: float = 30.0
    allow_hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    batching: BatcherConfig = field(default_factory=BatcherConfig)

    def __post_init__(self) -> None:
        check_ports(self)
        if not self.host:
            raise ValueError("host must not be empty; 127.0.0.1 keeps the service on this machine")
        check_seconds("reload_s", self.reload_s)
        check_seconds("drain_s", self.drain_s)
        Hosts(self.host, self.allow_hosts)


def check_seconds(name: str, value: float) -> None:
    """Raises ``ValueError`` for what an event loop cannot wait; NaN would break all its timers."""
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} must be >= 0 and finite, got {value}")


def check_ports(config: object) -> None:
    """Raises ``ValueError`` for a field ending in ``port`` that is no port."""
    for name in getattr(config, "__slots__", ()):
        value = getattr(config, name)
        if name.endswith("port") and not 0 <= value <= 65535:
            raise ValueError(f"{name} must lie between 0 and 65535, got {value}")


async def run(
    config: RankServerConfig,
    rankers: Rankers,
    sink: OutcomeSink,
    registry: CollectorRegistry,
    *,
    watched: list[Watched],
    source: Source | None,
    read: Callable[[], Mapping[str, Any]] | None = None,
    ranked: Sequence[Consumer] = (),
    guide: Guide | None = None,
    shadower: Shadower | None = None,
    swapped: Callable[[Swap], None] = lambda swap: None,
    looked: Callable[[], None] = lambda: None,
    ready_file: Path | None = None,
    stop: StopSignal | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Raises ``OSError`` when a port is taken.

    ``read`` gives the dashboard what it shows (``serving.dashboard.document``); without it there is
    no dashboard. It is called in threads. ``ranked`` are told of each answer, after it was made.
    ``guide`` says how far each forecast is to be trusted.
    ``shadower`` scores in the background what was answered. ``swapped`` and ``looked`` are as in
    :func:`serving.rankers.follow`.
    """
    if stop is None:
        stop = StopSignal()
        stop.install()
    metrics, gate = RankMetrics(registry), Gate()
    batcher = Batcher(config.batching, metrics.batched)
    if shadower is not None:
        ranked = (*ranked, shadower.ranked)
        sink = Heard(sink, shadower.ended)
    service = RankService(
        rankers,
        batcher,
        sink,
        config.limits,
        fell_back=metrics.fell_back,
        ranked=ranked,
        dropped=metrics.dropped,
        guide=guide,
    )
    server = GrpcServer(
        f"{bracketed(config.host)}:{config.port}",
        rank_pb2.DESCRIPTOR.services_by_name["RankService"],
        lambda s: rank_pb2_grpc.add_RankServiceServicer_to_server(service, s),
        gate,
        config.limits,
        metrics.called,
    )
    dashboard = Dashboard(read, time.monotonic) if read is not None else None
    hosts = Hosts(config.host, config.allow_hosts)
    http = HttpServer(
        HostCheck(rank_app(registry, dashboard), hosts), config.host, config.metrics_port
    )
    found = f"http://{await http.start()}"
    reloading: asyncio.Task[None] | None = None
    try:
        address = await server.start()
        if watched and source is not None and config.reload_s:

            def changed(swap: Swap) -> None:
                metrics.reloaded(swap.served_model)
                swapped(swap)

            reloading = asyncio.create_task(
                follow(watched, source, rankers, config.reload_s, changed, looked), name="reload"
            )
        if shadower is not None:
            shadower.start(lambda: batcher.waiting)
        await server.set_serving()
        addresses = {"grpc": address, "metrics": f"{found}/metrics"}
        if dashboard is not None:
            addresses["dashboard"] = found + PATH
        announce(addresses, ready_file)
        await stop.asked.wait()
        await server.leave()
        await drain(gate, stop, config.drain_s)
    finally:
        if reloading is not None:
            reloading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reloading
        await server.stop()
        if shadower is not None:
            await asyncio.to_thread(shadower.close)
        await batcher.close()
        service.close()
        if dashboard is not None:
            dashboard.feed.close()
        await http.stop()
