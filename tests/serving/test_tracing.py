"""Spans of requests: kept in memory, and posted to a collector's socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from ranker.types import Forecast
from serving.cli.console import explain
from serving.otlp import OtlpConfig, otlp_config
from serving.tracing import Tracing, open_tracing
from shortfirst.generate.v1 import generate_pb2
from tests.serving.engine_parts import Front, WordBackend, serve_front
from tests.serving.parts import SECRET

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


class Oracle:
    async def forecast(
        self, prompt: str, served_model: str, *, request_id: str, tenant: str, lane: str
    ) -> Forecast | None:
        return Forecast(7.0, (2.0, 5.0, 9.0), "words", "3", (0.1, 0.5, 0.9))


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> Tracing:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return Tracing(provider)


def by_name(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    found = {span.name: span for span in spans.get_finished_spans()}
    assert len(found) == len(spans.get_finished_spans())
    return found


@pytest.mark.parametrize(
    ("path", "body", "operation"),
    [
        ("completions", {"prompt": "one two"}, "text_completion"),
        ("completions", {"prompt": [1, 2]}, "text_completion"),
        ("chat/completions", {"messages": [{"role": "user", "content": "one"}]}, "chat"),
    ],
)
async def test_an_operation_is_named_by_what_was_asked(
    tracing: Tracing,
    spans: InMemorySpanExporter,
    path: str,
    body: dict[str, object],
    operation: str,
) -> None:
    async with serve_front(traces=tracing) as front:
        assert (await front.client.post(f"/v1/{path}", json=body)).status_code == 200
    attributes = by_name(spans)["llm_request"].attributes or {}
    assert attributes["gen_ai.operation.name"] == operation


async def test_a_request_and_its_parts_belong_to_the_callers_trace(
    tracing: Tracing, spans: InMemorySpanExporter
) -> None:
    async with serve_front(forecaster=Oracle(), traces=tracing) as front:
        body = {"prompt": f"{SECRET} two", "max_tokens": 9, "temperature": 0.5}
        await front.client.post("/v1/completions", json=body, headers=HEADERS)
    found = by_name(spans)
    assert set(found) == {"llm_request", "receive", "rank", "queue", "prefill", "decode"}
    request = found.pop("llm_request")
    assert request.kind is SpanKind.SERVER
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == SPAN
    assert f"{request.context.trace_id:032x}" == TRACE
    assert all(span.parent == request.context for span in found.values())
    attributes = dict(request.attributes or {})
    assert attributes["gen_ai.usage.prompt_tokens"] == attributes["gen_ai.usage.input_tokens"] == 2
    assert attributes["gen_ai.usage.completion_tokens"] == 3
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert attributes["gen_ai.request.max_tokens"] == 9
    assert attributes["gen_ai.latency.time_to_first_token"] == 0.75
    assert attributes["gen_ai.latency.time_in_model_decode"] == 1.0
    assert attributes["shortfirst.stall.prefill"] == 0.25
    assert dict(found["rank"].attributes or {})["shortfirst.forecast.score"] == 7.0
    prefill, decode = found["prefill"], found["decode"]
    assert prefill.end_time - prefill.start_time == pytest.approx(0.5e9, rel=1e-3)  # type: ignore[operator]
    assert decode.end_time - decode.start_time == pytest.approx(1e9, rel=1e-3)  # type: ignore[operator]
    assert all(SECRET not in span.to_json() for span in spans.get_finished_spans())


async def test_metadata_of_grpc_carries_the_trace_too(
    tracing: Tracing, spans: InMemorySpanExporter
) -> None:
    async with serve_front(traces=tracing) as front:
        request = generate_pb2.GenerateRequest(prompt="one two", request_id="mine")
        call = front.stub.Generate(request, metadata=tuple(HEADERS.items()))
        assert [r async for r in call]
    span = by_name(spans)["llm_request"]
    assert f"{span.context.trace_id:032x}" == TRACE
    assert (span.attributes or {})["gen_ai.request.id"] == "mine"


async def test_refused_and_abandoned_requests_have_a_span_without_text(
    tracing: Tracing, spans: InMemorySpanExporter
) -> None:
    async with serve_front(WordBackend(held=asyncio.Event()), traces=tracing) as front:
        await front.client.post("/v1/completions", json={"prompt": f"{SECRET} " * 70})
        (refused,) = spans.get_finished_spans()
        assert refused.status.status_code is StatusCode.ERROR
        assert (refused.attributes or {})["error.type"] == "invalid"
        assert SECRET not in refused.to_json()
        spans.clear()
        await _leave(front)
    found = by_name(spans)
    assert set(found) == {"llm_request", "receive"}
    attributes = dict(found["llm_request"].attributes or {})
    assert attributes["gen_ai.response.finish_reasons"] == ("abort",)


async def _leave(front: Front) -> None:
    call = front.stub.Generate(generate_pb2.GenerateRequest(prompt="one"))
    await call.read()
    call.cancel()
    await front.until_running(0)
    await front.gate.wait_empty(20)


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A socket that takes what exporters post."""
    posted: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            posted.append((self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            return None

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", posted
    server.shutdown()
    thread.join()
    server.server_close()


async def test_spans_are_posted_to_the_collector(
    collector: tuple[str, list[tuple[str, bytes]]],
) -> None:
    address, posted = collector
    config = otlp_config(address, {"OTEL_SERVICE_NAME": "ours"})
    assert config is not None
    tracing = open_tracing(config)
    async with serve_front(traces=tracing) as front:
        await front.client.post("/v1/completions", json={"prompt": "one two"}, headers=HEADERS)
    await asyncio.to_thread(tracing.close)
    names = set()
    for path, body in posted:
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            services = [a.value.string_value for a in resource.resource.attributes
                        if a.key == "service.name"]  # fmt: skip
            assert services == ["ours"]
            spans = [span for scope in resource.scope_spans for span in scope.spans]
            names |= {span.name for span in spans}
            assert all(span.trace_id.hex() == TRACE for span in spans)
    assert {"llm_request", "prefill", "decode"} <= names


@pytest.mark.parametrize(
    ("endpoint", "environ", "wanted"),
    [
        ("", {}, None),
        ("http://a:4318", {}, OtlpConfig("http://a:4318/v1/traces", "shortfirst-engine")),
        ("http://a/v1/traces", {}, OtlpConfig("http://a/v1/traces", "shortfirst-engine")),
        ("http://a:4318", {"OTEL_SDK_DISABLED": "true"}, None),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b"}, OtlpConfig(None, "shortfirst-engine")),
        (
            "",
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://b", "OTEL_SERVICE_NAME": "x"},
            OtlpConfig(None, "x"),
        ),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b", "OTEL_TRACES_EXPORTER": "none"}, None),
    ],
)
def test_traces_are_off_unless_asked_for(
    endpoint: str, environ: dict[str, str], wanted: OtlpConfig | None
) -> None:
    assert otlp_config(endpoint, environ) == wanted


@pytest.mark.parametrize(
    ("endpoint", "environ", "said"),
    [
        ("localhost:4317", {}, "--otlp-endpoint must be a URL"),
        ("http://a", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL must"),
    ],
)
def test_what_is_not_spoken_is_named(endpoint: str, environ: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        otlp_config(endpoint, environ)


def test_missing_packages_name_their_extra() -> None:
    explained = explain(ModuleNotFoundError("no", name="opentelemetry.exporter"))
    assert explained is not None
    assert "shortfirst[tracing]" in explained.message
