"""Between the messages of ``shortfirst.rank.v1`` and the types of ``ranker.types``."""

from __future__ import annotations

import math

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from drift.opened import Open
from ranker.types import MOST_SKETCH, FinishReason, Forecast, Outcome
from serving.errors import invalid
from serving.limits import Limits
from shortfirst.rank.v1 import rank_pb2

#: Seconds by which an end may lie before its arrival: two clocks told them, and it is taken to have
#: ended when it arrived. More is no skew but a mistake.
BACKWARDS_S = 5.0

_TO_REASON = {
    rank_pb2.FINISH_REASON_STOP: FinishReason.STOP,
    rank_pb2.FINISH_REASON_LENGTH: FinishReason.LENGTH,
    rank_pb2.FINISH_REASON_ABORT: FinishReason.ABORT,
    rank_pb2.FINISH_REASON_ERROR: FinishReason.ERROR,
}
_FROM_REASON = {reason: number for number, reason in _TO_REASON.items()}


def forecast_message(item_id: str, forecast: Forecast) -> rank_pb2.Forecast:
    return rank_pb2.Forecast(
        id=item_id,
        score=forecast.score,
        levels=forecast.levels,
        quantiles=forecast.quantiles,
        novelty=forecast.novelty,
        trust=None if forecast.trust == 1.0 else forecast.trust,
        sketch=forecast.sketch,
    )


def forecast_from(message: rank_pb2.Forecast, ranker: rank_pb2.RankerVersion) -> Forecast:
    """Raises ``ValueError`` when the numbers are no distribution (see ``Forecast``)."""
    return Forecast(
        score=message.score,
        quantiles=tuple(message.quantiles),
        ranker=ranker.name,
        version=ranker.version,
        levels=tuple(message.levels),
        novelty=message.novelty,
        trust=message.trust if message.HasField("trust") else 1.0,
        sketch=tuple(message.sketch),
    )


def outcome_message(outcome: Outcome) -> rank_pb2.Outcome:
    message = rank_pb2.Outcome(
        request_id=outcome.request_id,
        served_model=outcome.served_model,
        output_tokens=outcome.output_tokens,
        finish_reason=_FROM_REASON[outcome.finish_reason],
        prompt_tokens=outcome.prompt_tokens,
        tenant=outcome.tenant,
        lane=outcome.lane,
    )
    set_time(message.arrival_time, outcome.arrival)
    set_time(message.finish_time, outcome.finished)
    _set_forecast(message, outcome.forecast)
    return message


def open_message(request: Open) -> rank_pb2.OpenRequest:
    message = rank_pb2.OpenRequest(
        request_id=request.request_id,
        served_model=request.served_model,
        output_tokens=request.output_tokens,
        prompt_tokens=request.prompt_tokens,
        tenant=request.tenant,
        lane=request.lane,
    )
    set_time(message.arrival_time, request.arrival)
    set_time(message.seen_time, request.seen)
    _set_forecast(message, request.forecast)
    return message


def _set_forecast(
    message: rank_pb2.Outcome | rank_pb2.OpenRequest, forecast: Forecast | None
) -> None:
    if forecast is not None:
        message.forecast.CopyFrom(forecast_message("", forecast))
        message.ranker.name = forecast.ranker
        message.ranker.version = forecast.version


def outcome_from(
    message: rank_pb2.Outcome,
    where: str,
    limits: Limits,
    default_model: str,
    latest: float = math.inf,
) -> Outcome:
    """``where`` is the path of the message, such as ``outcomes[3]``; ``latest`` is the Unix second
    after which no time may lie. An end up to ``BACKWARDS_S`` before the arrival is moved there.

    Raises ``RequestError`` (INVALID) that names the field below ``where``.
    """
    _check_names(message, where, limits)
    reason = _TO_REASON.get(message.finish_reason)
    if reason is None:
        raise invalid(
            f"{where}.finish_reason", "must be STOP, LENGTH, ABORT or ERROR, got "
            f"{message.finish_reason}"
        )  # fmt: skip
    arrival = time_from(message, "arrival_time", where, latest)
    finished = time_from(message, "finish_time", where, latest)
    if finished < arrival - BACKWARDS_S:
        raise invalid(f"{where}.finish_time", "must not lie before arrival_time")
    return Outcome(
        request_id=message.request_id,
        served_model=message.served_model or default_model,
        output_tokens=message.output_tokens,
        finish_reason=reason,
        arrival=arrival,
        finished=max(arrival, finished),
        prompt_tokens=message.prompt_tokens,
        forecast=_forecast_of(message, where, limits),
        tenant=message.tenant,
        lane=message.lane,
    )


def open_from(
    message: rank_pb2.OpenRequest,
    where: str,
    limits: Limits,
    default_model: str,
    latest: float = math.inf,
) -> Open:
    """As :func:`outcome_from`, of a request under way."""
    _check_names(message, where, limits)
    arrival = time_from(message, "arrival_time", where, latest)
    return Open(
        request_id=message.request_id,
        served_model=message.served_model or default_model,
        output_tokens=message.output_tokens,
        arrival=arrival,
        seen=max(arrival, time_from(message, "seen_time", where, latest)),
        prompt_tokens=message.prompt_tokens,
        forecast=_forecast_of(message, where, limits),
        tenant=message.tenant,
        lane=message.lane,
    )


def _check_names(
    message: rank_pb2.Outcome | rank_pb2.OpenRequest, where: str, limits: Limits
) -> None:
    """Ids and counts that both kinds have."""
    for name in ("request_id", "served_model", "tenant", "lane"):
        if len(getattr(message, name)) > limits.max_name_chars:
            raise invalid(f"{where}.{name}", f"at most {limits.max_name_chars} characters")
    if not message.request_id:
        raise invalid(f"{where}.request_id", "must not be empty")
    for name in ("output_tokens", "prompt_tokens"):
        if getattr(message, name) > limits.max_tokens:
            raise invalid(
                f"{where}.{name}",
                f"at most {limits.max_tokens} tokens, got {getattr(message, name)}",
            )


def _forecast_of(
    message: rank_pb2.Outcome | rank_pb2.OpenRequest, where: str, limits: Limits
) -> Forecast | None:
    if not message.HasField("forecast"):
        return None
    if not message.HasField("ranker") or not message.ranker.name or not message.ranker.version:
        raise invalid(f"{where}.ranker", "must name the ranker and version of the forecast")
    for name in ("name", "version"):
        if len(getattr(message.ranker, name)) > limits.max_name_chars:
            raise invalid(f"{where}.ranker.{name}", f"at most {limits.max_name_chars} characters")
    if len(message.forecast.levels) > limits.max_levels:
        raise invalid(f"{where}.forecast.levels", f"at most {limits.max_levels}")
    if not math.isfinite(message.forecast.score):
        raise invalid(f"{where}.forecast.score", "must be finite")
    if len(message.forecast.sketch) > MOST_SKETCH:
        raise invalid(f"{where}.forecast.sketch", f"at most {MOST_SKETCH} numbers")
    if not all(map(math.isfinite, message.forecast.sketch)):
        raise invalid(f"{where}.forecast.sketch", "must be finite")
    try:
        return forecast_from(message.forecast, message.ranker)
    except ValueError as error:
        raise invalid(f"{where}.forecast", str(error)) from None


def time_from(message: Message, name: str, where: str, latest: float) -> float:
    """Unix seconds of the timestamp ``name``; raises as :func:`outcome_from` does."""
    field = f"{where}.{name}" if where else name
    if not message.HasField(name):
        raise invalid(field, "must be set")
    stamp = getattr(message, name)
    if not 0 <= stamp.nanos < 1_000_000_000 or not 0 <= stamp.seconds < 253_402_300_800:
        raise invalid(field, "must be a time between the years 1970 and 9999")
    seconds = stamp.seconds + stamp.nanos / 1e9
    if seconds > latest:
        raise invalid(field, "lies in the future; check the reporter's clock")
    return float(seconds)


def set_time(stamp: Timestamp, unix_s: float) -> None:
    """Write Unix seconds."""
    # Whole seconds first: nanoseconds of today's time have more digits than a float holds.
    seconds = math.floor(unix_s)
    nanos = round((unix_s - seconds) * 1e9)
    stamp.seconds, stamp.nanos = seconds + nanos // 1_000_000_000, nanos % 1_000_000_000
