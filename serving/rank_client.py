"""The engine's side of ranking. Generation never waits past a deadline and never fails for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import grpc

from drift.opened import Open
from ranker.types import Forecast, Outcome
from serving.breaker import Breaker, BreakerConfig
from serving.logs import failure
from serving.messages import forecast_from
from serving.reporter import Reporter, ReporterConfig
from shortfirst.rank.v1 import rank_pb2, rank_pb2_grpc

log = logging.getLogger(__name__)

#: Without these a channel waits up to two minutes before it tries a returned service again.
_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
)

#: Codes that say nothing of the service's health: it answered, and the fault is the request's.
_ANSWERED = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.OUT_OF_RANGE,
    }
)


#: Seconds that a request waits for its forecast when nobody says otherwise.
DEADLINE_S = 0.05


@dataclass(frozen=True, slots=True)
class RankClientConfig:
    """``deadline_s``: how long a request waits for its forecast before it goes unscored."""

    target: str
    deadline_s: float = DEADLINE_S
    breaker: BreakerConfig = field(default_factory=BreakerConfig)
    reporter: ReporterConfig = field(default_factory=ReporterConfig)

    def __post_init__(self) -> None:
        if not self.target:
            raise ValueError("target must name the rank service, such as 127.0.0.1:50051")
        if not self.deadline_s > 0:
            raise ValueError(f"deadline_s must be positive, got {self.deadline_s}")


class RankClient:
    """Belongs to the event loop that calls it. Use ``async with``; leaving flushes outcomes.

    ``observe`` is told of each request: ``scored``; ``fallback``, scored by a pooled ranker that
    does not know the served model; ``open`` (breaker), ``deadline_exceeded``, ``unavailable``, ...
    (a status code's name), ``malformed``.
    """

    def __init__(
        self,
        config: RankClientConfig,
        observe: Callable[[str], None] = lambda result: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._observe = observe
        self._clock = clock
        self._breaker = Breaker(config.breaker)
        self._channel = grpc.aio.insecure_channel(config.target, options=_OPTIONS)
        self._stub = rank_pb2_grpc.RankServiceStub(self._channel)
        self._reporter = Reporter(self._stub, config.reporter)

    async def __aenter__(self) -> RankClient:
        # The first request's deadline should not have to pay for the connection.
        self._channel.get_state(try_to_connect=True)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def reporter(self) -> Reporter:
        return self._reporter

    async def connected(self, timeout_s: float) -> bool:
        """Wait for the first connection; false when it takes longer than ``timeout_s``."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._channel.channel_ready(), timeout_s)
            return True
        return False

    async def forecast(
        self,
        prompt: str,
        served_model: str,
        *,
        request_id: str = "0",
        tenant: str = "",
        lane: str = "",
    ) -> Forecast | None:
        """The forecast of one prompt, or ``None`` for any reason. Raises nothing but cancellation.

        ``request_id``, ``tenant`` and ``lane`` are those that its outcome will have. Takes no
        longer than the configured deadline.
        """
        if not self._breaker.allow(self._clock()):
            self._observe("open")
            return None
        request = rank_pb2.RankRequest(
            served_model=served_model,
            items=[rank_pb2.RankItem(id=request_id, prompt=prompt)],
            tenant=tenant,
            lane=lane,
        )
        try:
            async with asyncio.timeout(self._config.deadline_s):
                response = await self._stub.Rank(request, timeout=self._config.deadline_s)
            (message,) = response.forecasts
            forecast = forecast_from(message, response.ranker)
        except grpc.aio.AioRpcError as error:
            if error.code() in _ANSWERED:
                self._breaker.success()
            else:
                self._breaker.failure(self._clock())
            self._observe(error.code().name.lower())
            return None
        except TimeoutError:
            self._breaker.failure(self._clock())
            self._observe("deadline_exceeded")
            return None
        except asyncio.CancelledError:
            self._breaker.abandon()
            raise
        except Exception as error:
            self._breaker.failure(self._clock())
            self._observe("malformed")
            log.warning("the rank service gave no usable answer: %s", failure(error))
            return None
        self._breaker.success()
        self._reporter.retry_now()
        self._observe("fallback" if response.fallback else "scored")
        return forecast

    def report(self, outcomes: Sequence[Outcome]) -> None:
        """Hand realised lengths to the background reporter. Never blocks, never raises."""
        self._reporter.add(outcomes)

    def watch(self, under_way: Callable[[], Sequence[Open]]) -> None:
        """As :meth:`Reporter.watch`."""
        self._reporter.watch(under_way)

    async def close(self, flush_s: float = 2.0) -> None:
        """Try for ``flush_s`` seconds to deliver what is buffered, then close."""
        await self._reporter.close(flush_s)
        await self._channel.close()
