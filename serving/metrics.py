"""Prometheus metrics of both services. Names mirror the field's, under our prefix; no ids, no text.

Each class registers with the registry it is given, so that tests and processes stay apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from engine.readings import Reading

_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0,
)  # fmt: skip
_FAST = (0.0001, 0.00025, 0.0005, *_SECONDS[:11])
_TOKENS = tuple(2.0**i for i in range(15))


class RankMetrics:
    """What the rank service counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "shortfirst_rank_requests", "Calls of the rank service.", ["method", "code"],
            registry=registry,
        )  # fmt: skip
        self._duration = Histogram(
            "shortfirst_rank_request_duration_seconds", "Time from call to answer.", ["method"],
            buckets=_FAST, registry=registry,
        )  # fmt: skip
        self._batch = Histogram(
            "shortfirst_rank_batch_prompts", "Prompts that were forecast at once.",
            buckets=_TOKENS[:10], registry=registry,
        )  # fmt: skip
        self._reloads = Counter(
            "shortfirst_rank_reloads", "Rankers that took a predecessor's place.",
            ["served_model"], registry=registry,
        )  # fmt: skip

    def called(self, method: str, code: str, seconds: float) -> None:
        name = method.rpartition("/")[2]
        self._requests.labels(name, code).inc()
        self._duration.labels(name).observe(seconds)

    def batched(self, prompts: int) -> None:
        self._batch.observe(prompts)

    def reloaded(self, served_model: str) -> None:
        self._reloads.labels(served_model).inc()


class EngineMetrics:
    """What the engine's front counts, per request and per token."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ttft = Histogram(
            "shortfirst_engine_time_to_first_token_seconds", "TTFT, from arrival.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._itl = Histogram(
            "shortfirst_engine_inter_token_latency_seconds", "ITL: gaps between tokens.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._e2e = Histogram(
            "shortfirst_engine_e2e_request_latency_seconds", "E2EL, from arrival to the end.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._queue = Histogram(
            "shortfirst_engine_request_queue_time_seconds", "From arrival to being scheduled.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._prompt_tokens = Histogram(
            "shortfirst_engine_request_prompt_tokens", "Prompt lengths.",
            buckets=_TOKENS, registry=registry,
        )  # fmt: skip
        self._output_tokens = Histogram(
            "shortfirst_engine_request_output_tokens", "Answer lengths.",
            buckets=_TOKENS, registry=registry,
        )  # fmt: skip
        self._requests = Counter(
            "shortfirst_engine_requests", "Requests that ended.", ["scored", "finish_reason"],
            registry=registry,
        )  # fmt: skip
        self._refused = Counter(
            "shortfirst_engine_requests_refused", "Requests that were not accepted.", ["reason"],
            registry=registry,
        )  # fmt: skip
        self._forecasts = Counter(
            "shortfirst_engine_forecasts", "What came of asking the rank service.", ["result"],
            registry=registry,
        )  # fmt: skip

    def first_token(self, seconds: float) -> None:
        self._ttft.observe(seconds)

    def next_tokens(self, seconds: float, tokens: int) -> None:
        """``tokens`` came together, ``seconds`` after the ones before them."""
        for _ in range(tokens):
            self._itl.observe(seconds / tokens)

    def finished(
        self,
        *,
        scored: bool,
        reason: str,
        seconds: float,
        queue_seconds: float,
        prompt_tokens: int,
        output_tokens: int,
    ) -> None:
        self._requests.labels(str(scored).lower(), reason).inc()
        self._e2e.observe(seconds)
        self._queue.observe(queue_seconds)
        self._prompt_tokens.observe(prompt_tokens)
        self._output_tokens.observe(output_tokens)

    def aborted(self, scored: bool) -> None:
        """A caller left before the end."""
        self._requests.labels(str(scored).lower(), "abort").inc()

    def refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()

    def asked(self, result: str) -> None:
        """What came of one forecast request; see ``RankClient``."""
        self._forecasts.labels(result).inc()


class Snapshot(Collector):
    """Gauges and counters that are read when somebody scrapes.

    Names that end in ``_total`` are counters. ``help`` names every metric that may come.
    """

    def __init__(self, read: Callable[[], Iterable[Reading]], help: Mapping[str, str]) -> None:
        self._read = read
        self._help = dict(help)

    def describe(self) -> Iterable[Any]:
        return [self._family(name, ()) for name in self._help]

    def collect(self) -> Iterable[Any]:
        families: dict[str, Any] = {}
        for name, value, labels in self._read():
            if name not in families:
                families[name] = self._family(name, [label for label, _ in labels])
            families[name].add_metric([text for _, text in labels], value)
        return families.values()

    def _family(self, name: str, labels: Sequence[str]) -> Any:
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        return kind(name, self._help[name], labels=labels)
