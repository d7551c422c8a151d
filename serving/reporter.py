"""Delivers realised lengths in the background: bounded, retried, never in generation's way."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc

from drift.opened import Open
from ranker.types import Outcome
from serving.messages import open_message, outcome_message, set_time
from serving.refusal import refused_places
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc

log = logging.getLogger(__name__)

#: Answers after which sending the same outcomes again cannot help.
_HOPELESS = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED})


#: What the service takes at once.
_MOST_OPEN = 1024


@dataclass(frozen=True, slots=True)
class ReporterConfig:
    """``capacity`` outcomes are kept while the service is away; the oldest are dropped first.

    ``name`` tells the service who reports. ``open_every_s``: how often requests under way are told.
    """

    capacity: int = 20_000
    batch: int = 256
    deadline_s: float = 5.0
    first_wait_s: float = 0.1
    max_wait_s: float = 2.0
    name: str = ""
    open_every_s: float = 5.0

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= 1024:
            raise ValueError(f"batch must be between 1 and 1024, got {self.batch}")
        if self.capacity < self.batch:
            raise ValueError(f"capacity must be at least batch ({self.batch})")
        if not 0 < self.first_wait_s <= self.max_wait_s:
            raise ValueError("first_wait_s must be positive and at most max_wait_s")
        for name in ("deadline_s", "open_every_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive")


class Reporter:
    """Belongs to one event loop. Outcomes leave the buffer only when they are acknowledged.

    ``wall`` gives Unix seconds: the clock that outcomes are told in.
    """

    def __init__(
        self,
        stub: rank_pb2_grpc.RankServiceStub,
        config: ReporterConfig | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._stub = stub
        self._config = config or ReporterConfig()
        self._wall = wall
        self._buffer: deque[Outcome] = deque()
        self._more = asyncio.Event()
        self._retry = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self.delivered = 0  #: acknowledged by the service
        self.dropped = 0  #: lost to a full buffer, or refused by the service

    @property
    def waiting(self) -> int:
        return len(self._buffer)

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Buffer ``outcomes``; to be called from the event loop."""
        if not outcomes:
            return
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="outcome-reporter")
        self._buffer.extend(outcomes)
        while len(self._buffer) > self._config.capacity:
            self._buffer.popleft()
            self.dropped += 1
        self._idle.clear()
        self._more.set()

    def watch(self, under_way: Callable[[], Sequence[Open]]) -> None:
        """Tell the service every few seconds of the requests that ``under_way`` gives.

        It is called in a thread. The oldest go when there are too many for one report. What gets no
        answer isn't sent again: the next will say more.
        """
        self._telling = asyncio.create_task(self._tell(under_way), name="open-reporter")

    def retry_now(self) -> None:
        """The service has just answered: what could not be delivered need not wait any longer."""
        self._retry.set()

    async def flush(self, timeout_s: float) -> bool:
        """Wait until the buffer is empty; false when ``timeout_s`` is not enough."""
        self.retry_now()
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def close(self, flush_s: float) -> None:
        if not await self.flush(flush_s):
            log.warning("%d outcomes were not delivered", len(self._buffer))
        for task in (self._telling, self._task):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _tell(self, under_way: Callable[[], Sequence[Open]]) -> None:
        while True:
            await asyncio.sleep(self._config.open_every_s)
            try:
                found = await asyncio.to_thread(under_way)
                oldest = sorted(found, key=lambda request: request.arrival)[:_MOST_OPEN]
                if oldest:
                    request = self._request(())
                    request.open.extend(map(open_message, oldest))
                    await self._stub.ReportOutcomes(request, timeout=self._config.deadline_s)
            except Exception as error:  # the next may get through
                log.debug("open requests were not told (%s)", type(error).__name__)

    async def _run(self) -> None:
        wait = self._config.first_wait_s
        while True:
            await self._more.wait()
            self._more.clear()
            while self._buffer:
                # Taken out before the call, so that an overflow meanwhile cannot shift it away.
                batch = [
                    self._buffer.popleft()
                    for _ in range(min(self._config.batch, len(self._buffer)))
                ]
                self._retry.clear()
                try:
                    delivered = await self._send(batch)
                except asyncio.CancelledError:
                    self._buffer.extendleft(reversed(batch))
                    raise
                if delivered:
                    wait = self._config.first_wait_s
                else:
                    self._buffer.extendleft(reversed(batch))
                    # However often the service answers other calls, it is not to be hammered.
                    await asyncio.sleep(self._config.first_wait_s)
                    with contextlib.suppress(TimeoutError):
                        rest = wait - self._config.first_wait_s
                        await asyncio.wait_for(self._retry.wait(), rest)
                    wait = min(2 * wait, self._config.max_wait_s)
            self._idle.set()

    async def _send(self, batch: list[Outcome]) -> bool:
        """Whether ``batch`` is done with. Reporting an id twice is safe, so any doubt means no.

        What no message can be made of is taken out of ``batch``.
        """
        made = [(o, message) for o in batch if (message := self._message(o)) is not None]
        batch[:] = [outcome for outcome, _ in made]
        if not batch:
            return True
        request = self._request([message for _, message in made])
        try:
            await self._stub.ReportOutcomes(request, timeout=self._config.deadline_s)
        except grpc.aio.AioRpcError as error:
            if error.code() not in _HOPELESS:
                return False
            bad = refused_places(error, "outcomes") & set(range(len(batch)))
            log.error(
                "the rank service refused %d of %d outcomes: %s (%s)",
                len(bad) or len(batch), len(batch), error.code().name, error.details(),
            )  # fmt: skip
            if not bad:
                self.dropped += len(batch)
                return True
            # One that is wrong must not take the others with it.
            self.dropped += len(bad)
            batch[:] = [outcome for i, outcome in enumerate(batch) if i not in bad]
            return await self._send(batch)
        except Exception as error:  # of the channel, say: nobody awaits this task to hear of it
            log.error(
                "%d outcomes were not sent (%s), again soon", len(batch), type(error).__name__
            )
            return False
        self.delivered += len(batch)
        return True

    def _request(self, messages: Sequence[rank_pb2.Outcome]) -> rank_pb2.ReportOutcomesRequest:
        request = rank_pb2.ReportOutcomesRequest(outcomes=messages, reporter=self._config.name)
        set_time(request.sent_time, self._wall())
        return request

    def _message(self, outcome: Outcome) -> rank_pb2.Outcome | None:
        try:
            return outcome_message(outcome)
        except Exception as error:  # it would be the same the next time
            self.dropped += 1
            log.error("an outcome makes no message (%s) and is dropped", type(error).__name__)
            return None
