"""The real model behind the HTTP API, on a socket, for clients that block."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

if TYPE_CHECKING:
    from engine.backend import TorchBackend


def bundled_folder(request: pytest.FixtureRequest) -> Path:
    """The converted bundled model; the test is skipped where there is none."""
    bundled = pytest.importorskip("engine.bundled")
    try:
        bundled.bundled_gguf()
    except ValueError as error:
        pytest.skip(str(error))
    default = request.config.rootpath / ".cache" / "models"
    return Path(bundled.prepare_bundled(Path(os.environ.get("SHORTFIRST_TEST_CACHE", default))))


@contextmanager
def serve_model(folder: Path) -> Iterator[tuple[str, TorchBackend]]:
    """The address of a server that runs in a thread of its own, and its engine."""
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
        yield addresses[0], backend
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        backend.close()
        loop.close()
