"""What OpenAI's API has no field for, under ``shortfirst`` in answers, for who asks for it."""

from __future__ import annotations

from typing import Any

from engine.events import Ended
from engine.pace import Pace
from serving.generation import Generation


def accepted(generation: Generation) -> dict[str, Any]:
    """Told when the request is queued; empty when nothing of it was asked for."""
    asked, forecast = generation.include, generation.forecast
    told: dict[str, Any] = {}
    if asked.forecast:
        told["forecast"] = forecast and {
            "ranker": forecast.ranker,
            "version": forecast.version,
            "score": forecast.score,
            "levels": forecast.levels,
            "quantiles": forecast.quantiles,
        }
    if asked.queue_position:
        told["queue_position"] = generation.position() or 0
    return told


def chunk(generation: Generation) -> dict[str, Any]:
    """Told with each piece of an answer."""
    return {"seconds": round(generation.elapsed(), 6)} if generation.include.timing else {}


def last(generation: Generation, ended: Ended) -> dict[str, Any]:
    """Told in the end; seconds of the engine's clock."""
    times, phases, pace = ended.latencies, ended.phases, ended.pace or Pace()
    if not generation.include.timing or times is None or phases is None:
        return {}
    seconds = {
        "first_token_seconds": times.ttft,
        "prefill_seconds": phases.prefill,
        "decode_seconds": phases.decode,
        "total_seconds": times.e2el,
        "itl_mean_seconds": pace.mean,
        "itl_std_seconds": pace.std,
        "itl_p99_seconds": pace.p99,
        "itl_max_seconds": pace.longest,
    }
    stalls = {cause.value: round(each, 6) for cause, each in pace.stalls.items()}
    rounded = {name: round(each, 6) for name, each in seconds.items()}
    return {"timing": {**rounded, "stall_seconds": stalls}}


def tell(body: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """``body`` with ``told`` under ``shortfirst``, beside what is there."""
    return body | {"shortfirst": body.get("shortfirst", {}) | told} if told else body
