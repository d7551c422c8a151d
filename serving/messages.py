"""Between the messages of ``shortfirst.rank.v1`` and the types of ``ranker.types``."""

from __future__ import annotations

import math

from google.protobuf.timestamp_pb2 import Timestamp

from ranker.types import FinishReason, Forecast, Outcome
from serving.errors import invalid
from serving.limits import Limits
from shortfirst.rank.v1 import rank_pb2

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
    _set_time(message.arrival_time, outcome.arrival)
    _set_time(message.finish_time, outcome.finished)
    if outcome.forecast is not None:
        message.forecast.CopyFrom(forecast_message("", outcome.forecast))
        message.ranker.name = outcome.forecast.ranker
        message.ranker.version = outcome.forecast.version
    return message


def outcome_from(
    message: rank_pb2.Outcome,
    where: str,
    limits: Limits,
    default_model: str,
    latest: float = math.inf,
) -> Outcome:
    """``where`` is the path of the message, such as ``outcomes[3]``; ``latest`` is the Unix second
    after which no time may lie.

    Raises ``RequestError`` (INVALID) that names the field below ``where``.
    """
    for name in ("request_id", "served_model", "tenant", "lane"):
        if len(getattr(message, name)) > limits.max_name_chars:
            raise invalid(f"{where}.{name}", f"at most {limits.max_name_chars} characters")
    if not message.request_id:
        raise invalid(f"{where}.request_id", "must not be empty")
    reason = _TO_REASON.get(message.finish_reason)
    if reason is None:
        raise invalid(
            f"{where}.finish_reason", "must be STOP, LENGTH, ABORT or ERROR, got "
            f"{message.finish_reason}"
        )  # fmt: skip
    times = []
    for name in ("arrival_time", "finish_time"):
        if not message.HasField(name):
            raise invalid(f"{where}.{name}", "must be set")
        stamp = getattr(message, name)
        if not 0 <= stamp.nanos < 1_000_000_000 or not 0 <= stamp.seconds < 253_402_300_800:
            raise invalid(f"{where}.{name}", "must be a time between the years 1970 and 9999")
        times.append(stamp.seconds + stamp.nanos / 1e9)
        if times[-1] > latest:
            raise invalid(f"{where}.{name}", "lies in the future; check the reporter's clock")
    if times[1] < times[0]:
        raise invalid(f"{where}.finish_time", "must not lie before arrival_time")
    forecast = None
    if message.HasField("forecast"):
        if not message.HasField("ranker") or not message.ranker.name or not message.ranker.version:
            raise invalid(f"{where}.ranker", "must name the ranker and version of the forecast")
        for name in ("name", "version"):
            if len(getattr(message.ranker, name)) > limits.max_name_chars:
                raise invalid(
                    f"{where}.ranker.{name}", f"at most {limits.max_name_chars} characters"
                )
        if len(message.forecast.levels) > limits.max_levels:
            raise invalid(f"{where}.forecast.levels", f"at most {limits.max_levels}")
        if not math.isfinite(message.forecast.score):
            raise invalid(f"{where}.forecast.score", "must be finite")
        try:
            forecast = forecast_from(message.forecast, message.ranker)
        except ValueError as error:
            raise invalid(f"{where}.forecast", str(error)) from None
    return Outcome(
        request_id=message.request_id,
        served_model=message.served_model or default_model,
        output_tokens=message.output_tokens,
        finish_reason=reason,
        arrival=times[0],
        finished=times[1],
        prompt_tokens=message.prompt_tokens,
        forecast=forecast,
        tenant=message.tenant,
        lane=message.lane,
    )


def _set_time(stamp: Timestamp, unix_s: float) -> None:
    # Whole seconds first: nanoseconds of today's time have more digits than a float holds.
    seconds = math.floor(unix_s)
    nanos = round((unix_s - seconds) * 1e9)
    stamp.seconds, stamp.nanos = seconds + nanos // 1_000_000_000, nanos % 1_000_000_000
