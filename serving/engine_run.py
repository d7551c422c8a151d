"""The engine as a command runs it: model, costs, front, traces; until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from prometheus_client import CollectorRegistry

from serving import drafts, engine_load, engine_options, engine_setup
from serving.engine_server import EngineServerConfig, run
from serving.engine_setup import EngineSetup
from serving.otlp import OtlpConfig


def serve(
    setup: EngineSetup,
    served: EngineServerConfig,
    cache: Path,
    *,
    otlp: OtlpConfig | None = None,
    ready_file: Path | None = None,
) -> None:
    """Load and serve until SIGTERM or SIGINT, then drain. ``cache``: where converted models are.

    Raises ``ValueError`` for what cannot serve, ``OSError`` when a port is taken, ``EngineStopped``
    when the engine ends by itself, and ``ModuleNotFoundError`` when traces are wanted and cannot
    be sent.
    """
    with contextlib.ExitStack() as stack:
        traces = None
        if otlp is not None:
            # Before the model: what is missing is said at once.
            from serving.tracing import open_tracing

            traces = open_tracing(otlp)
            stack.callback(traces.close)
        model = engine_load.load(setup, cache)
        setup = engine_setup.with_cost(setup, model)
        speculative = drafts.prepare(setup, model, drafts.load_draft(setup, cache))
        start = engine_setup.starter(setup, model, speculative=speculative)
        facts = {"policy": ", ".join(dict.fromkeys(lane.policy for lane in setup.lanes))}
        if setup.cost is not None:
            facts["cost"] = engine_options.cost_text(setup.cost)
        asyncio.run(
            run(
                served, start, CollectorRegistry(),
                facts=facts, ready_file=ready_file, traces=traces,
            )
        )  # fmt: skip
