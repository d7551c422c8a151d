"""Forecasts in batches on a thread of their own, so that the event loop never computes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

from ranker.types import Forecast, Ranker
from serving.errors import Kind, RequestError
from serving.logs import failure

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatcherConfig:
    """``max_batch`` prompts are forecast at once; ``max_waiting`` prompts may wait for that.

    A batch of several calls is kept so small that, at the pace of the ranker so far, it takes
    ``batch_s`` seconds: an encoder of 15 ms a prompt would keep the first of 256 callers waiting
    for the last.
    """

    max_batch: int = 256
    max_waiting: int = 4096
    batch_s: float = 0.02

    def __post_init__(self) -> None:
        if self.max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, got {self.max_batch}")
        if self.max_waiting < self.max_batch:
            raise ValueError(
                f"max_waiting must be at least max_batch ({self.max_batch}), got {self.max_waiting}"
            )
        if not self.batch_s > 0:
            raise ValueError(f"batch_s must be positive, got {self.batch_s}")


@dataclass(slots=True, eq=False)
class _Job:
    ranker: Ranker
    prompts: Sequence[str] = field(repr=False)
    answer: asyncio.Future[list[Forecast]]


class Batcher:
    """Gathers whatever arrived while the thread was busy: no delay when idle, batches under load.

    Jobs keep their order. Those whose caller went away are dropped before any work. When a batch
    fails, its jobs are tried one by one so that a prompt which breaks the ranker breaks one call.
    """

    def __init__(
        self,
        config: BatcherConfig | None = None,
        observe: Callable[[int], None] = lambda prompts: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._config = config or BatcherConfig()
        self._observe = observe
        self._clock = clock
        # Seconds a prompt took in the latest batch, by name and version of the ranker.
        self._paces: dict[tuple[str, str], float] = {}
        self._jobs: deque[_Job] = deque()
        self._waiting = 0
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="forecast")
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Prompts that wait for the thread."""
        return self._waiting

    async def forecast(self, ranker: Ranker, prompts: Sequence[str]) -> list[Forecast]:
        """One forecast per prompt. Raises BUSY when too many prompts wait already."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="batcher")
        if self._waiting + len(prompts) > self._config.max_waiting:
            raise RequestError(
                Kind.BUSY,
                f"{self._waiting} prompts wait for a forecast; try again later",
                retry_after_s=0.1,
            )
        job = _Job(ranker, prompts, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._waiting += len(prompts)
        self._arrived.set()
        return await job.answer

    async def close(self) -> None:
        """Stop the thread; callers that still wait get UNAVAILABLE."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        while self._jobs:
            _fail(self._jobs.popleft(), RequestError(Kind.UNAVAILABLE, "the server is stopping"))
        self._thread.shutdown(wait=False)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            batch = self._next()
            if not self._jobs:
                self._arrived.clear()
            if not batch:
                continue
            prompts = list(chain.from_iterable(job.prompts for job in batch))
            self._observe(len(prompts))
            begun = self._clock()
            try:
                answers = await loop.run_in_executor(
                    self._thread, _checked, batch[0].ranker, prompts
                )
            except asyncio.CancelledError:
                for job in batch:
                    _fail(job, RequestError(Kind.UNAVAILABLE, "the server is stopping"))
                raise
            except Exception as error:
                if len(batch) == 1:
                    _fail(batch[0], error)
                    continue
                log.warning("a batch of %d calls failed, one by one now: %s", len(batch),
                            failure(error))  # fmt: skip
                await self._one_by_one(batch)
                continue
            took = self._clock() - begun
            self._paces[_key(batch[0].ranker)] = took / max(1, len(prompts))
            start = 0
            for job in batch:
                if not job.answer.done():
                    job.answer.set_result(answers[start : start + len(job.prompts)])
                start += len(job.prompts)

    async def _one_by_one(self, batch: list[_Job]) -> None:
        loop = asyncio.get_running_loop()
        for job in batch:
            try:
                answers = await loop.run_in_executor(
                    self._thread, _checked, job.ranker, list(job.prompts)
                )
            except Exception as error:
                _fail(job, error)
            else:
                if not job.answer.done():
                    job.answer.set_result(answers)

    def _next(self) -> list[_Job]:
        """The oldest job and those behind it that go to the same ranker and fit."""
        batch: list[_Job] = []
        size = 0
        while self._jobs:
            job = self._jobs[0]
            if job.answer.done():  # the caller went away
                self._take()
                continue
            if batch and (
                job.ranker is not batch[0].ranker
                or size + len(job.prompts) > self._most(job.ranker)
            ):
                break
            batch.append(self._take())
            size += len(job.prompts)
        return batch

    def _most(self, ranker: Ranker) -> int:
        """Prompts of a batch of several calls."""
        pace = self._paces.get(_key(ranker), 0.0)
        if pace * self._config.max_batch <= self._config.batch_s:
            return self._config.max_batch
        return max(1, int(self._config.batch_s / pace))

    def _take(self) -> _Job:
        job = self._jobs.popleft()
        self._waiting -= len(job.prompts)
        return job


def _key(ranker: Ranker) -> tuple[str, str]:
    return ranker.name, str(ranker.version)


def _checked(ranker: Ranker, prompts: list[str]) -> list[Forecast]:
    forecasts = ranker.forecast(prompts)
    if len(forecasts) != len(prompts):
        raise RuntimeError(f"the ranker gave {len(forecasts)} forecasts for {len(prompts)} prompts")
    return forecasts


def _fail(job: _Job, error: Exception) -> None:
    if not job.answer.done():
        job.answer.set_exception(error)
