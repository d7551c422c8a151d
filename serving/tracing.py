"""OpenTelemetry spans of requests: when they were received, ranked, queued, prefilled, decoded.

Spans are made when a request is over, from times that were taken on the way, so that a token costs
nothing. They hold counts and times, never text. Import only when tracing is wanted: it takes the
``tracing`` extra.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from engine.events import Ended
from ranker.types import FinishReason
from serving.errors import RequestError
from serving.otlp import OtlpConfig
from serving.story import Story

_PROPAGATOR = TraceContextTextMapPropagator()


def open_tracing(config: OtlpConfig) -> Tracing:
    """Spans leave in batches, in a thread of their own."""
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: config.service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=config.url)))
    return Tracing(provider)


class Tracing:
    """Implements :class:`serving.story.Traces`. ``clock`` and ``wall`` as the front has them."""

    def __init__(
        self,
        provider: TracerProvider,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("shortfirst")
        self._clock = clock
        self._wall = wall

    def refused(self, story: Story, error: RequestError) -> None:
        attributes = {"error.type": error.kind.name.lower()}
        self._request(story, attributes, self._clock(), StatusCode.ERROR)

    def left(self, story: Story) -> None:
        attributes = {"gen_ai.response.finish_reasons": (FinishReason.ABORT.value,)}
        self._request(story, attributes, self._clock(), StatusCode.UNSET)

    def ended(self, story: Story, ended: Ended) -> None:
        failed = ended.reason is FinishReason.ERROR
        status = StatusCode.ERROR if failed else StatusCode.UNSET
        now = self._clock()
        context = self._request(story, _attributes(story, ended, now), now, status)
        scheduled = story.arrival + ended.queue_seconds
        self._span("queue", scheduled if story.queued is None else story.queued, scheduled, context)
        if ended.latencies is not None:
            first = story.arrival + ended.latencies.ttft
            last = story.arrival + ended.latencies.e2el
            self._span("prefill", scheduled, first, context)
            self._span("decode", first, last, context)

    def close(self) -> None:
        """Send what is left. Blocks for seconds when the collector does not answer."""
        self._provider.shutdown()

    def _request(
        self, story: Story, attributes: Mapping[str, Any], end: float, status: StatusCode
    ) -> Context:
        """The request's own span with those of all requests; what others are children of."""
        parent = _PROPAGATOR.extract(story.job.trace)
        span = self._tracer.start_span(
            "llm_request",
            context=parent,
            kind=SpanKind.SERVER,
            start_time=self._nanos(story.arrival),
            attributes={**_asked(story), **attributes},
        )
        span.set_status(Status(status))
        context = trace.set_span_in_context(span, parent)
        if story.queued is not None:
            self._span("receive", story.arrival, story.queued, context)
        if story.ranked is not None:
            self._span("rank", *story.ranked, context, _forecast(story))
        span.end(self._nanos(end))
        return context

    def _span(
        self,
        name: str,
        start: float,
        end: float,
        context: Context,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        span = self._tracer.start_span(
            name, context=context, start_time=self._nanos(start), attributes=attributes
        )
        span.end(self._nanos(max(start, end)))

    def _nanos(self, at: float) -> int:
        """Unix time of a moment of the front's clock."""
        return round((self._wall() - (self._clock() - at)) * 1e9)


def _asked(story: Story) -> dict[str, Any]:
    job, sampling = story.job, story.job.sampling
    found: dict[str, Any] = {
        "gen_ai.operation.name": "chat" if job.turns else "text_completion",
        "gen_ai.request.id": story.request_id,
        "gen_ai.response.model": story.model,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
    }
    if sampling.max_tokens is not None:
        found["gen_ai.request.max_tokens"] = sampling.max_tokens
    return found


def _forecast(story: Story) -> dict[str, Any]:
    forecast = story.forecast
    if forecast is None:
        return {"shortfirst.scored": False}
    return {
        "shortfirst.scored": True,
        "shortfirst.forecast.ranker": forecast.ranker,
        "shortfirst.forecast.version": forecast.version,
        "shortfirst.forecast.score": forecast.score,
    }


def _attributes(story: Story, ended: Ended, now: float) -> dict[str, Any]:
    """As vLLM names them, and as the semantic conventions do; both are read."""
    times, phases, pace = ended.latencies, ended.phases, ended.pace
    found: dict[str, Any] = {
        "gen_ai.usage.prompt_tokens": ended.prompt_tokens,
        "gen_ai.usage.completion_tokens": ended.output_tokens,
        "gen_ai.usage.input_tokens": ended.prompt_tokens,
        "gen_ai.usage.output_tokens": ended.output_tokens,
        "gen_ai.response.finish_reasons": (ended.reason.value,),
        "gen_ai.latency.time_in_queue": ended.queue_seconds,
        "gen_ai.latency.e2e": now - story.arrival,
        "shortfirst.scored": ended.scored,
        "shortfirst.lane": ended.lane,
        "shortfirst.preemptions": ended.preemptions,
        "shortfirst.cached_tokens": ended.cached_tokens,
    }
    if times is not None:
        found["gen_ai.latency.time_to_first_token"] = times.ttft
    if phases is not None:
        found["gen_ai.latency.time_in_model_prefill"] = phases.prefill
        found["gen_ai.latency.time_in_model_decode"] = phases.decode
        found["gen_ai.latency.time_in_model_inference"] = phases.inference
    if pace is not None and pace.gaps:
        found["shortfirst.itl.p99"], found["shortfirst.itl.std"] = pace.p99, pace.std
        found |= {f"shortfirst.stall.{cause.value}": s for cause, s in pace.stalls.items()}
    return found
