"""Drive a real engine in this process with requests that arrive when they are said to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.backend import TorchBackend
from engine.bench.calibrate import Observed
from engine.core.request import Request
from engine.events import Ended, Tokens
from engine.metrics import Timing
from engine.sampling import SamplingParams
from ranker.types import FinishReason


class Driver:
    """Runs segments of requests on ``backend``, whose clock must be ``time.monotonic``.

    Prompts are random tokens of the lengths asked for, and answers run to their ``true_tokens``:
    lengths are imposed, as serving benchmarks do.
    """

    def __init__(self, backend: TorchBackend, vocabulary: int, seed: int) -> None:
        self._backend = backend
        self._rng = np.random.default_rng(seed)
        self._vocabulary = vocabulary
        self._count = 0

    def run(self, requests: Sequence[Request]) -> Observed:
        """Blocks until the last of them has ended. Raises ``RuntimeError`` when one failed."""
        before = self._backend.snapshot().steps
        done = asyncio.run(self._all(requests))
        steps = self._backend.measured_steps()
        taken = self._backend.snapshot().steps - before
        return Observed(
            requests=tuple(request for request, _ in done),
            timings=tuple(timing for _, timing in done),
            steps=tuple(steps[max(0, len(steps) - taken) :]),
        )

    async def _all(self, requests: Sequence[Request]) -> list[tuple[Request, Timing]]:
        start = time.monotonic()
        return await asyncio.gather(*(self._one(request, start) for request in requests))

    async def _one(self, request: Request, start: float) -> tuple[Request, Timing]:
        assert request.true_tokens is not None
        self._count += 1
        name, seed = f"drive-{self._count}", self._count
        prompt = self._rng.integers(0, self._vocabulary, request.prompt_tokens).tolist()
        sampling = SamplingParams(max_tokens=request.true_tokens, ignore_eos=True, seed=seed)
        await asyncio.sleep(max(0.0, start + request.arrival - time.monotonic()))
        arrival = time.monotonic()
        stream = await self._backend.submit(
            name, prompt, sampling, request.forecast, request.tenant, arrival, request.lane
        )
        first: float | None = None
        async for event in stream:
            if isinstance(event, Tokens):
                first = time.monotonic() if first is None else first
            elif isinstance(event, Ended) and event.reason is not FinishReason.LENGTH:
                raise RuntimeError(f"a request ended with {event.reason.value}; see the log")
        ended = time.monotonic()
        came = replace(request, id=name, arrival=arrival)
        timing = Timing(
            name, arrival, first or ended, ended, request.prompt_tokens, request.true_tokens
        )
        return came, timing
