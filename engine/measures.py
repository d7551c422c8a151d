"""One simulated run as plain numbers by name, to be set side by side."""

from __future__ import annotations

import math

from engine.metrics import Latency, Objective, attainment, goodput
from engine.result import Result


def measure(result: Result, slo: Objective | None = None) -> dict[str, float]:
    """Seconds, tokens and shares.

    ``mean_``, ``median_``, ``p90_`` and ``p99_`` of ``ttft``, ``tpot``, ``itl``, ``e2el``,
    ``per_token`` (E2EL per output token) and ``max_waiting`` (the longest wait for a token);
    ``mean_itl_std``: the spread of a request's own ITL, which stalls raise. Requests and output
    tokens per second; with ``slo``, goodput: requests per second that met it, and their share.
    preemptions by cause; recomputed and swapped tokens, drafted and accepted ones; share of prompt
    tokens found in the prefix cache; the queue, slots, memory and time used; Jain's index.
    """
    summary, stats = result.summary, result.stats
    found: dict[str, float] = {}
    for name in ("ttft", "tpot", "itl", "e2el", "per_token", "max_waiting"):
        latency: Latency | None = getattr(summary, name)
        for what in ("mean", "median", "p90", "p99"):
            found[f"{what}_{name}"] = math.nan if latency is None else getattr(latency, what)
    queried = stats.memory.queried_tokens
    return found | {
        "mean_itl_std": math.nan if summary.itl_std is None else summary.itl_std.mean,
        "request_throughput": summary.request_throughput,
        "output_throughput": summary.throughput,
        "goodput": math.nan if slo is None else goodput(result.timings, slo, result.duration),
        "attainment": math.nan if slo is None else attainment(result.timings, slo),
        "refused": len(result.refused),
        "preemptions": stats.preemptions,
        "preempted_for_memory": stats.preempted_for_memory,
        "preempted_for_order": stats.preempted_for_order,
        "preempted_for_lane": stats.preempted_for_lane,
        "recomputed_tokens": stats.recomputed_tokens,
        "swapped_tokens": stats.swapped_tokens,
        "drafted_tokens": stats.drafted_tokens,
        "accepted_tokens": stats.accepted_tokens,
        "prefix_hit_rate": stats.memory.prefix_hit_tokens / queried if queried else 0.0,
        "peak_waiting": result.peak_waiting,
        "mean_waiting": result.mean_waiting,
        "utilisation": result.utilisation,
        "slot_usage": result.slot_usage,
        "kv_usage": result.kv_usage,
        "peak_kv_usage": result.peak_kv_usage,
        "duration": result.duration,
        "jain": result.jain,
    }
