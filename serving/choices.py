"""The generations of one call: several answers to each of several prompts, as one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from hashlib import blake2b

from engine.events import Event
from serving.generation import Generation
from serving.generator import Generator
from serving.job import Job


class Choices:
    """Generation ``i`` of prompt ``p`` has place ``p * each + i``. ``close`` in any case.

    The generations of one prompt share its blocks through the prefix cache: the first goes ahead,
    and the others follow when its prompt is computed.
    """

    def __init__(self, generator: Generator, each: int) -> None:
        self._generator = generator
        self.each = each
        self._generations: dict[int, Generation] = {}
        self._events: dict[int, AsyncIterator[Event]] = {}
        self._first: dict[int, Event] = {}

    async def start(self, jobs: tuple[Job, ...]) -> None:
        """Queue all of them. Raises ``RequestError`` when one is refused, and leaves none then."""
        if len(jobs) == self.each == 1:
            await self._enter(0, jobs[0], None)
            return
        families = [asyncio.ensure_future(self._family(p, job)) for p, job in enumerate(jobs)]
        try:
            await asyncio.gather(*families)
        except BaseException:
            for family in families:
                family.cancel()
            await asyncio.gather(*families, return_exceptions=True)
            self.close()
            raise

    def __getitem__(self, place: int) -> Generation:
        return self._generations[place]

    def __len__(self) -> int:
        return len(self._generations)

    async def events(self) -> AsyncIterator[tuple[int, Event]]:
        """Events with the place of their generation, as they come; each ends with an ``Ended``."""
        if len(self) == 1:
            async with aclosing(self._events[0]) as events:  # type: ignore[type-var]
                async for event in events:
                    yield 0, event
            return
        queue: asyncio.Queue[tuple[int, Event] | None] = asyncio.Queue()

        async def pump(place: int) -> None:
            try:
                async for event in self._events[place]:
                    queue.put_nowait((place, event))
            finally:
                queue.put_nowait(None)

        pumps = [asyncio.ensure_future(pump(place)) for place in self._events]
        try:
            for place, event in self._first.items():
                yield place, event
            left = len(pumps)
            while left:
                if (item := await queue.get()) is None:
                    left -= 1
                else:
                    yield item
            await asyncio.gather(*pumps)  # raises what one of them met
        finally:
            for each in pumps:
                each.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.close()

    def close(self) -> None:
        """Abort those that have not ended by themselves. May be called again."""
        for generation in self._generations.values():
            generation.close()

    async def _family(self, prompt: int, job: Job) -> None:
        """All generations of one prompt."""
        place = prompt * self.each
        leader = await self._enter(place, _choice(job, prompt, 0), None)
        if self.each > 1:
            self._first[place] = await anext(self._events[place])
            for i in range(1, self.each):
                await self._enter(place + i, _choice(job, prompt, i), leader)

    async def _enter(self, place: int, job: Job, twin: Generation | None) -> Generation:
        generation = await self._generator.start(job, twin, self.each)
        self._generations[place] = generation
        self._events[place] = generation.events()
        return generation


def _choice(job: Job, prompt: int, i: int) -> Job:
    """The job of answer ``i`` to prompt ``prompt``, the first of both being the job itself."""
    if job.request_id and (prompt or i):
        job = replace(job, request_id=f"{job.request_id}-{prompt}-{i}")
    if i == 0:
        return job
    sampling = replace(job.sampling, prompt_logprobs=None)
    if sampling.seed is not None:
        sampling = replace(sampling, seed=_seed(sampling.seed, i))
    return replace(job, sampling=sampling)


def _seed(seed: int, i: int) -> int:
    """Another stream of random numbers for each answer, the same for the same ``seed``."""
    return int.from_bytes(blake2b(f"{seed} {i}".encode(), digest_size=8).digest())
