"""Drive a real engine in this process with requests that arrive when they are said to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from engine.backend import TorchBackend
from engine.bench.calibrate import Observed
from engine.bench.clocks import Clock
from engine.core.request import Request
from engine.events import Ended
from engine.metrics import Timing
from engine.sampling import SamplingParams
from ranker.types import FinishReason


class Driver:
    """Runs segments of requests on ``backend``, which must go by ``clock``.

    Prompts are random tokens of the lengths asked for, and answers run to their ``true_tokens``:
    lengths are imposed, as serving benchmarks do. Latencies are those that the engine measures,
    from arrival until it hands a token over.
    """

    def __init__(self, backend: TorchBackend, clock: Clock, vocabulary: int, seed: int) -> None:
        self._backend = backend
        self._clock = clock
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
        start = self._clock.now()
        answers = []
        for request in sorted(requests, key=lambda request: request.arrival):
            await self._clock.until(start + request.arrival, self._idle)
            answers.append(asyncio.create_task(self._one(request)))
            await asyncio.sleep(0)  # it is submitted before the next is waited for
        return await asyncio.gather(*answers)

    def _idle(self) -> bool:
        stats = self._backend.snapshot()
        return not stats.running and not stats.waiting

    async def _one(self, request: Request) -> tuple[Request, Timing]:
        assert request.true_tokens is not None
        self._count += 1
        name = f"drive-{self._count}"
        prompt = self._rng.integers(0, self._vocabulary, request.prompt_tokens).tolist()
        sampling = SamplingParams(max_tokens=request.true_tokens, ignore_eos=True, seed=self._count)
        arrival = self._clock.now()
        stream = await self._backend.submit(
            name, prompt, sampling, request.forecast, request.tenant, arrival, request.lane
        )
        async for event in stream:
            if isinstance(event, Ended):
                if event.reason is not FinishReason.LENGTH or event.latencies is None:
                    raise RuntimeError(f"a request ended with {event.reason.value}; see the log")
                first, end = arrival + event.latencies.ttft, arrival + event.latencies.e2el
        timing = Timing(name, arrival, first, end, request.prompt_tokens, request.true_tokens)
        return replace(request, id=name, arrival=arrival), timing
