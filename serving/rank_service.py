"""``shortfirst.rank.v1.RankService``: forecasts out, realised lengths in."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import grpc

from ranker.types import Outcome
from serving.batcher import Batcher
from serving.errors import Kind, RequestError, invalid
from serving.limits import Limits
from serving.logs import failure
from serving.messages import forecast_message, outcome_from
from serving.rankers import Rankers
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc

log = logging.getLogger(__name__)

#: How far a reporter's clock may be ahead, in seconds. The drift monitor goes by arrival: after an
#: outcome from far ahead it would take every later one for late.
_CLOCK_AHEAD_S = 600.0


class OutcomeSink(Protocol):
    """Where realised lengths go. Called from one thread that is not the event loop's."""

    def store(self, outcomes: Sequence[Outcome]) -> tuple[int, int]:
        """Make ``outcomes`` durable, then return how many were stored and how many were known."""
        ...


class RankService(rank_pb2_grpc.RankServiceServicer):  # type: ignore[misc]
    """Raises ``RequestError``, which ``serving.interceptors.Guard`` turns into a status.

    ``wall_clock`` gives Unix seconds: no outcome lies after them. ``fell_back`` is told how many
    prompts got the forecasts of a pooled ranker that does not know their model.
    """

    def __init__(
        self,
        rankers: Rankers,
        batcher: Batcher,
        sink: OutcomeSink,
        limits: Limits | None = None,
        wall_clock: Callable[[], float] = time.time,
        fell_back: Callable[[int], None] = lambda prompts: None,
    ) -> None:
        self._rankers = rankers
        self._batcher = batcher
        self._sink = sink
        self._limits = limits or Limits()
        self._wall_clock = wall_clock
        self._fell_back = fell_back
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="outcomes")

    async def Rank(
        self, request: rank_pb2.RankRequest, context: grpc.aio.ServicerContext
    ) -> rank_pb2.RankResponse:
        self._check_items(request)
        answering = self._rankers.of(request.served_model)
        ranker = answering.ranker
        forecasts = await self._batcher.forecast(ranker, [item.prompt for item in request.items])
        if answering.fallback:
            self._fell_back(len(forecasts))
        return rank_pb2.RankResponse(
            ranker=rank_pb2.RankerVersion(name=ranker.name, version=str(ranker.version)),
            served_model=request.served_model or self._rankers.default,
            forecasts=[
                forecast_message(item.id, forecast)
                for item, forecast in zip(request.items, forecasts, strict=True)
            ],
            fallback=answering.fallback,
        )

    async def ReportOutcomes(
        self, request: rank_pb2.ReportOutcomesRequest, context: grpc.aio.ServicerContext
    ) -> rank_pb2.ReportOutcomesResponse:
        if len(request.outcomes) > self._limits.max_outcomes:
            raise invalid(
                "outcomes",
                f"at most {self._limits.max_outcomes} at once, got {len(request.outcomes)}",
            )
        latest = self._wall_clock() + _CLOCK_AHEAD_S
        outcomes = [
            outcome_from(message, f"outcomes[{i}]", self._limits, self._rankers.default, latest)
            for i, message in enumerate(request.outcomes)
        ]
        if not outcomes:
            return rank_pb2.ReportOutcomesResponse()
        # A caller that hangs up must not leave us unsure whether the outcomes were stored.
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(self._disk, self._sink.store, outcomes)
        try:
            stored, duplicates = await asyncio.shield(writing)
        except (OSError, sqlite3.Error) as error:
            log.error("outcomes were not stored: %s", failure(error))
            raise RequestError(
                Kind.UNAVAILABLE, "the outcomes were not stored; send them again", retry_after_s=1.0
            ) from None
        return rank_pb2.ReportOutcomesResponse(stored=stored, duplicates=duplicates)

    def close(self) -> None:
        """Wait for outcomes that are being written."""
        self._disk.shutdown(wait=True)

    def _check_items(self, request: rank_pb2.RankRequest) -> None:
        limits = self._limits
        if not request.items:
            raise invalid("items", "must hold at least one prompt")
        if len(request.items) > limits.max_items:
            raise invalid("items", f"at most {limits.max_items} at once, got {len(request.items)}")
        seen: set[str] = set()
        for i, item in enumerate(request.items):
            where = f"items[{i}]"
            if not item.id:
                raise invalid(f"{where}.id", "must not be empty")
            if len(item.id) > limits.max_name_chars:
                raise invalid(f"{where}.id", f"at most {limits.max_name_chars} characters")
            if item.id in seen:
                raise invalid(f"{where}.id", "must be unique within the request")
            seen.add(item.id)
            if not item.prompt:
                raise invalid(f"{where}.prompt", "must not be empty")
            if len(item.prompt) > limits.max_prompt_chars:
                raise invalid(
                    f"{where}.prompt",
                    f"at most {limits.max_prompt_chars} characters, got {len(item.prompt)}",
                )
