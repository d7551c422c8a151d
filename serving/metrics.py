"""Prometheus metrics of both services. Names mirror the field's, under our prefix; no ids, no text.

Each class registers with the registry it is given, so that tests and processes stay apart.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from engine.events import Ended

_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0,
)  # fmt: skip
_FAST = (0.0001, 0.00025, 0.0005, *_SECONDS[:11])
_TOKENS = tuple(2.0**i for i in range(15))
_COUNTS = (0, 1, 2, 3, 5, 10, 20, 50)
_RATIOS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0)

#: Histograms of an engine's front. Of the engine's own clock where they say "engine"; the others
#: are measured where tokens leave.
_ENGINE = {
    "time_to_first_token_seconds": ("TTFT, from arrival.", _SECONDS),
    "inter_token_latency_seconds": (
        "ITL: times between deliveries of tokens; several of one step come together.", _SECONDS,
    ),
    "e2e_request_latency_seconds": ("E2EL, from arrival to the end.", _SECONDS),
    "request_time_per_output_token_seconds": (
        "TPOT, one a request: engine time after its first token by the tokens after it.", _SECONDS,
    ),
    "request_queue_time_seconds": ("From arrival to being scheduled, engine.", _SECONDS),
    "request_prefill_time_seconds": ("From being scheduled to the first token, engine.", _SECONDS),
    "request_decode_time_seconds": ("From the first token to the last, engine.", _SECONDS),
    "request_inference_time_seconds": ("Prefill and decode time together, engine.", _SECONDS),
    "request_itl_p99_seconds": ("99th percentile of a request's own ITL, engine.", _SECONDS),
    "request_itl_max_seconds": ("Longest wait between two tokens of a request, engine.", _SECONDS),
    "request_itl_std_seconds": ("Standard deviation of a request's ITL, engine.", _FAST),
    "request_itl_variation": ("The same by their mean: 0 is a metronome.", _RATIOS),
    "request_num_preemptions": ("Times that a request lost its slot.", _COUNTS),
    "request_prompt_tokens": ("Prompt lengths.", _TOKENS),
    "request_output_tokens": ("Answer lengths.", _TOKENS),
    "request_params_max_tokens": ("max_tokens, of requests that set it.", _TOKENS),
    "request_params_n": ("Answers asked for to one prompt.", (1, 2, 3, 5, 10, 20)),
}  # fmt: skip


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
        self._fallbacks = Counter(
            "shortfirst_rank_fallbacks",
            "Prompts of a served model that no ranker knows, forecast by the pooled one.",
            registry=registry,
        )

        self._dropped = Counter(
            "shortfirst_rank_ranked_dropped",
            "Prompts that were ranked and not told of to retention or shadow: too many waited.",
            registry=registry,
        )

    def called(self, method: str, code: str, seconds: float) -> None:
        name = method.rpartition("/")[2]
        self._requests.labels(name, code).inc()
        self._duration.labels(name).observe(seconds)

    def batched(self, prompts: int) -> None:
        self._batch.observe(prompts)

    def reloaded(self, served_model: str) -> None:
        self._reloads.labels(served_model).inc()

    def fell_back(self, prompts: int) -> None:
        self._fallbacks.inc(prompts)

    def dropped(self, prompts: int) -> None:
        self._dropped.inc(prompts)


class EngineMetrics:
    """What the engine's front counts, per request and per token."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._histograms = {
            name: Histogram(f"shortfirst_engine_{name}", help, buckets=buckets, registry=registry)
            for name, (help, buckets) in _ENGINE.items()
        }
        self._requests = Counter(
            "shortfirst_engine_requests", "Requests that ended.", ["scored", "finish_reason"],
            registry=registry,
        )  # fmt: skip
        self._refused = Counter(
            "shortfirst_engine_requests_refused", "Requests that were not accepted.", ["reason"],
            registry=registry,
        )  # fmt: skip
        self._in_flight = Gauge(
            "shortfirst_engine_requests_in_flight", "Requests that came in and are not over.",
            registry=registry,
        )  # fmt: skip
        self._forecasts = Counter(
            "shortfirst_engine_forecasts",
            "What came of asking the rank service; fallback: scored by a pooled ranker that does "
            "not know the served model.",
            ["result"],
            registry=registry,
        )
        self._prompt_tokens = Counter(
            "shortfirst_engine_prompt_tokens",
            "Prompt tokens of requests that got their first token; those found cached count too.",
            registry=registry,
        )  # fmt: skip
        self._generation_tokens = Counter(
            "shortfirst_engine_generation_tokens", "Tokens that were delivered.", registry=registry
        )

    def watch(self, in_flight: Callable[[], int]) -> None:
        """``in_flight``: requests that came in and are not answered yet."""
        self._in_flight.set_function(in_flight)

    def accepted(self, max_tokens: int | None, answers: int) -> None:
        """A prompt came in; ``max_tokens`` and ``answers`` as its caller set them."""
        if max_tokens is not None:
            self._observe("request_params_max_tokens", max_tokens)
        self._observe("request_params_n", answers)

    def first_token(self, seconds: float, prompt_tokens: int, tokens: int) -> None:
        self._observe("time_to_first_token_seconds", seconds)
        self._prompt_tokens.inc(prompt_tokens)
        self._generation_tokens.inc(tokens)

    def next_tokens(self, seconds: float, tokens: int) -> None:
        """``tokens`` came together, ``seconds`` after the ones before them."""
        self._observe("inter_token_latency_seconds", seconds)
        self._generation_tokens.inc(tokens)

    def finished(self, ended: Ended, seconds: float) -> None:
        """``seconds`` after its arrival."""
        self._requests.labels(str(ended.scored).lower(), ended.reason.value).inc()
        self._observe("e2e_request_latency_seconds", seconds)
        self._observe("request_queue_time_seconds", ended.queue_seconds)
        self._observe("request_prompt_tokens", ended.prompt_tokens)
        self._observe("request_output_tokens", ended.output_tokens)
        self._observe("request_num_preemptions", ended.preemptions)
        times, phases, pace = ended.latencies, ended.phases, ended.pace
        if phases is not None:
            self._observe("request_prefill_time_seconds", phases.prefill)
            self._observe("request_decode_time_seconds", phases.decode)
            self._observe("request_inference_time_seconds", phases.inference)
        if times is not None and times.tpot is not None:
            self._observe("request_time_per_output_token_seconds", times.tpot)
        if pace is not None and pace.gaps:
            self._observe("request_itl_p99_seconds", pace.p99)
            self._observe("request_itl_max_seconds", pace.longest)
            self._observe("request_itl_std_seconds", pace.std)
            self._observe("request_itl_variation", pace.variation)

    def aborted(self, scored: bool) -> None:
        """A caller left before the end."""
        self._requests.labels(str(scored).lower(), "abort").inc()

    def refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()

    def asked(self, result: str) -> None:
        """What came of one forecast request; see ``RankClient``."""
        self._forecasts.labels(result).inc()

    def _observe(self, name: str, value: float) -> None:
        self._histograms[name].observe(value)
