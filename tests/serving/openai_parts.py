"""The real model behind the HTTP API, on a socket, for clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry


@contextmanager
def serve_model(folder: Path) -> Iterator[str]:
    """The address of a server that runs in a thread of its own."""
    from engine.backend import TorchBackend
    from engine.core import policies
    from engine.core.scheduler import SchedulerConfig
    from engine.models import load
    from serving.drain import Gate
    from serving.generator import Generator, GeneratorConfig
    from serving.http_server import HttpServer
    from serving.metrics import EngineMetrics
    from serving.openai_http import OpenAI

    model = load(folder, name="smollm2", device="cpu", dtype="float32")
    config = SchedulerConfig(8, 512, 16, 256, max_waiting=64)
    backend = TorchBackend(model, config, policies.make("fcfs"))
    loop, ready, addresses = asyncio.new_event_loop(), threading.Event(), []

    async def serve(over: asyncio.Event) -> None:
        registry = CollectorRegistry()
        metrics = EngineMetrics(registry)
        generator = Generator(backend, None, metrics, GeneratorConfig(rank_model=""))
        http = HttpServer(OpenAI(generator, Gate(), registry).app(), "127.0.0.1", 0)
        addresses.append(await http.start())
        ready.set()
        await over.wait()
        await http.stop()
        generator.close()

    over = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(over),))
    thread.start()
    try:
        assert ready.wait(60)
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        backend.close()
        loop.close()
