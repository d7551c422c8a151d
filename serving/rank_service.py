"""``shortfirst.rank.v1.RankService``: forecasts out, realised lengths in."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import grpc

from drift.delivery import Delivery, Receipt
from ranker.types import Forecast
from serving.batcher import Batcher
from serving.errors import Kind, RequestError, invalid
from serving.guide import Guide
from serving.limits import Limits
from serving.logs import failure
from serving.messages import forecast_message, open_from, outcome_from, time_from
from serving.ranked import Consumer, HandedOn, Ranked
from serving.rankers import Rankers
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc

log = logging.getLogger(__name__)

#: How far a reporter's clock may be ahead, in seconds. The drift monitor goes by arrival: after an
#: outcome from far ahead it would take every later one for late.
_CLOCK_AHEAD_S = 600.0


#: Reports that may wait for the disk at once. A caller keeps the others and tries again.
_MOST_WAITING = 64


class OutcomeSink(Protocol):
    """Where realised lengths go. Called from one thread that is not the event loop's."""

    def receive(self, delivery: Delivery, received: float) -> Receipt:
        """Make the outcomes durable, then return how many were new. ``received``: Unix seconds."""
        ...

    def ranked(self, served_model: str, forecasts: Sequence[Forecast], now: float) -> None:
        """Forecasts were given out at Unix second ``now``."""
        ...


class RankService(rank_pb2_grpc.RankServiceServicer):  # type: ignore[misc]
    """Raises ``RequestError``, which ``serving.interceptors.Guard`` turns into a status.

    ``wall_clock`` gives Unix seconds: no outcome lies after them. ``fell_back`` is told how many
    prompts got the forecasts of a pooled ranker that does not know their model. ``ranked`` are
    told of each answer after it was made, as :class:`serving.ranked.HandedOn` says; ``dropped`` of
    prompts that they were not told of. ``guide`` says how far each forecast is to be trusted.
    """

    def __init__(
        self,
        rankers: Rankers,
        batcher: Batcher,
        sink: OutcomeSink,
        limits: Limits | None = None,
        wall_clock: Callable[[], float] = time.time,
        fell_back: Callable[[int], None] = lambda prompts: None,
        ranked: Sequence[Consumer] = (),
        dropped: Callable[[int], None] = lambda prompts: None,
        guide: Guide | None = None,
    ) -> None:
        self._rankers = rankers
        self._batcher = batcher
        self._sink = sink
        self._limits = limits or Limits()
        self._wall_clock = wall_clock
        self._fell_back = fell_back
        self._hand_on = HandedOn(ranked, dropped)
        self._guide = guide
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="outcomes")
        self._waiting = self._telling = 0

    async def Rank(
        self, request: rank_pb2.RankRequest, context: grpc.aio.ServicerContext
    ) -> rank_pb2.RankResponse:
        self._check_names(request)
        self._check_items(request)
        answering = self._rankers.of(request.served_model)
        ranker = answering.ranker
        forecasts = await self._batcher.forecast(ranker, [item.prompt for item in request.items])
        if answering.fallback:
            self._fell_back(len(forecasts))
        served = request.served_model or self._rankers.default
        self._tell(served, forecasts)
        if self._guide is not None:
            forecasts = self._guide.stamp(served, request.lane, request.tenant, forecasts)
        response = rank_pb2.RankResponse(
            ranker=rank_pb2.RankerVersion(name=ranker.name, version=str(ranker.version)),
            served_model=served,
            forecasts=[
                forecast_message(item.id, forecast)
                for item, forecast in zip(request.items, forecasts, strict=True)
            ],
            fallback=answering.fallback,
        )
        if self._hand_on.wanted:
            self._hand_on(
                Ranked(
                    served_model=served,
                    ranker=ranker.name,
                    version=str(ranker.version),
                    tenant=request.tenant,
                    lane=request.lane,
                    ids=tuple(item.id for item in request.items),
                    prompts=tuple(item.prompt for item in request.items),
                    forecasts=tuple(forecasts),
                    at=self._wall_clock(),
                )
            )
        return response

    async def ReportOutcomes(
        self, request: rank_pb2.ReportOutcomesRequest, context: grpc.aio.ServicerContext
    ) -> rank_pb2.ReportOutcomesResponse:
        limits, received = self._limits, self._wall_clock()
        for name, most in (("outcomes", limits.max_outcomes), ("open", limits.max_open)):
            if len(getattr(request, name)) > most:
                raise invalid(name, f"at most {most} at once, got {len(getattr(request, name))}")
        if len(request.reporter) > limits.max_name_chars:
            raise invalid("reporter", f"at most {limits.max_name_chars} characters")
        sent = None
        if request.HasField("sent_time"):
            sent = time_from(request, "sent_time", "", math.inf)
        latest = (received if sent is None else sent) + _CLOCK_AHEAD_S
        default = self._rankers.default
        delivery = Delivery(
            outcomes=[
                outcome_from(message, f"outcomes[{i}]", limits, default, latest)
                for i, message in enumerate(request.outcomes)
            ],
            open=[
                open_from(message, f"open[{i}]", limits, default, latest)
                for i, message in enumerate(request.open)
            ],
            reporter=request.reporter,
            sent=sent,
            mended=sum(map(_backwards, request.outcomes)),
        )
        if not delivery.outcomes and not delivery.open:
            return rank_pb2.ReportOutcomesResponse()
        if self._waiting >= _MOST_WAITING:
            raise RequestError(
                Kind.BUSY, "too many reports are waiting to be stored; send them again",
                retry_after_s=1.0,
            )  # fmt: skip
        # A caller that hangs up must not leave us unsure whether the outcomes were stored.
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(self._disk, self._sink.receive, delivery, received)
        self._waiting += 1
        writing.add_done_callback(self._written)
        try:
            receipt = await asyncio.shield(writing)
        except (OSError, sqlite3.Error) as error:
            log.error("outcomes were not stored: %s", failure(error))
            if _disk_full(error):
                raise RequestError(
                    Kind.BUSY, "the disk is full: the outcomes were not stored; send them again",
                    retry_after_s=5.0,
                ) from None  # fmt: skip
            raise RequestError(
                Kind.UNAVAILABLE, "the outcomes were not stored; send them again", retry_after_s=1.0
            ) from None
        if self._guide is not None:
            self._guide.told(receipt.stored)
        return rank_pb2.ReportOutcomesResponse(
            stored=receipt.stored, duplicates=receipt.duplicates, conflicts=receipt.conflicts
        )

    def _written(self, writing: asyncio.Future[Receipt]) -> None:
        self._waiting -= 1
        if not writing.cancelled():
            writing.exception()  # read here too: its caller may be gone

    def _tell(self, served_model: str, forecasts: Sequence[Forecast]) -> None:
        """Let the sink know what was ranked, in its thread; nobody waits for it, and a sink in
        trouble is no reason to fail.

        When too much waits it is not told: what was ranked is compared, not kept.
        """
        if self._telling >= _MOST_WAITING:
            return
        self._telling += 1
        now = self._wall_clock()
        loop = asyncio.get_running_loop()
        telling = loop.run_in_executor(self._disk, self._sink.ranked, served_model, forecasts, now)
        telling.add_done_callback(self._told)

    def _told(self, telling: asyncio.Future[None]) -> None:
        self._telling -= 1
        if not telling.cancelled() and (error := telling.exception()) is not None:
            log.error("what was ranked was not counted: %s", failure(error))

    def close(self) -> None:
        """Wait for outcomes that are being written, and for what is handed on."""
        self._disk.shutdown(wait=True)
        self._hand_on.close()

    def _check_names(self, request: rank_pb2.RankRequest) -> None:
        for name in ("tenant", "lane"):
            if len(getattr(request, name)) > self._limits.max_name_chars:
                raise invalid(name, f"at most {self._limits.max_name_chars} characters")

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


def _backwards(message: rank_pb2.Outcome) -> bool:
    """Whether it ended before it arrived, by two clocks."""
    ended, came = message.finish_time, message.arrival_time
    return (ended.seconds, ended.nanos) < (came.seconds, came.nanos)


def _disk_full(error: OSError | sqlite3.Error) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
