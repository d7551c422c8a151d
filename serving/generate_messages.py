"""Events of a generation as messages of ``shortfirst.generate.v1``."""

from __future__ import annotations

from engine.events import Ended, Event, Latencies, Phases, Tokens
from engine.pace import Pace
from engine.token import Token
from ranker.types import FinishReason
from serving.generation import Generation
from serving.messages import forecast_message
from shortfirst.generate.v1 import generate_pb2
from shortfirst.rank.v1 import rank_pb2

_REASONS = {
    FinishReason.STOP: generate_pb2.FINISH_REASON_STOP,
    FinishReason.LENGTH: generate_pb2.FINISH_REASON_LENGTH,
    FinishReason.ABORT: generate_pb2.FINISH_REASON_ABORT,
    FinishReason.ERROR: generate_pb2.FINISH_REASON_ERROR,
}


def accepted(generation: Generation) -> generate_pb2.GenerateResponse | None:
    """The first event; ``None`` when nothing that it holds was asked for."""
    asked = generation.include
    if not (asked.forecast or asked.queue_position):
        return None
    message = generate_pb2.Accepted()
    forecast = generation.forecast
    if asked.forecast and forecast is not None:
        message.forecast.CopyFrom(forecast_message("", forecast))
        message.ranker.CopyFrom(
            rank_pb2.RankerVersion(name=forecast.ranker, version=forecast.version)
        )
    if asked.queue_position:
        message.queue_position = generation.position() or 0
    return generate_pb2.GenerateResponse(request_id=generation.request_id, accepted=message)


def response(generation: Generation, event: Event) -> generate_pb2.GenerateResponse:
    """Any later event."""
    timed = generation.include.timing
    if isinstance(event, Tokens):
        chunk = generate_pb2.Chunk(
            text=event.text,
            token_ids=event.token_ids,
            logprobs=[_logprobs(token) for token in event.tokens if token.logprob is not None],
            prompt_logprobs=[_logprobs(token) for token in event.prompt],
        )
        if timed:
            chunk.seconds = generation.elapsed()
        return generate_pb2.GenerateResponse(request_id=generation.request_id, chunk=chunk)
    finish = _finish(event)
    if timed and event.latencies is not None and event.phases is not None:
        finish.timing.CopyFrom(_timing(event.latencies, event.phases, event.pace or Pace()))
    return generate_pb2.GenerateResponse(request_id=generation.request_id, finish=finish)


def _logprobs(token: Token) -> generate_pb2.TokenLogprobs:
    top = [generate_pb2.TopLogprob(token_id=other, logprob=each) for other, each in token.top]
    return generate_pb2.TokenLogprobs(token_id=token.id, logprob=token.logprob, top=top)


def _finish(ended: Ended) -> generate_pb2.Finish:
    text, token = (ended.stop, None) if isinstance(ended.stop, str) else (None, ended.stop)
    return generate_pb2.Finish(
        reason=_REASONS[ended.reason],
        prompt_tokens=ended.prompt_tokens,
        output_tokens=ended.output_tokens,
        scored=ended.scored,
        queue_seconds=ended.queue_seconds,
        preemptions=ended.preemptions,
        cached_tokens=ended.cached_tokens,
        lane=ended.lane,
        stop_text=text,
        stop_token_id=token,
    )


def _timing(times: Latencies, phases: Phases, pace: Pace) -> generate_pb2.Timing:
    return generate_pb2.Timing(
        first_token_seconds=times.ttft,
        prefill_seconds=phases.prefill,
        decode_seconds=phases.decode,
        total_seconds=times.e2el,
        itl_mean_seconds=pace.mean,
        itl_std_seconds=pace.std,
        itl_p99_seconds=pace.p99,
        itl_max_seconds=pace.longest,
        stall_seconds={cause.value: seconds for cause, seconds in pace.stalls.items()},
    )
