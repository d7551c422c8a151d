"""A load client of the public gRPC API that times every stream from the outside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import grpc.aio

from engine.metrics import Timing
from serving.burst.items import Item
from serving.processes import ServiceFailed
from shortfirst.generate.v1 import generate_pb2, generate_pb2_grpc


class Lengths(StrEnum):
    """Who decides how long an answer gets."""

    LOG = "log"  #: the recorded length: ``ignore_eos`` and a token limit, as serving benchmarks do
    OWN = "own"  #: the served model stops by itself


@dataclass(frozen=True, slots=True)
class Reply:
    """One finished stream. ``scored``: a forecast took part in its scheduling. ``cut``: it ended
    at its token limit."""

    timing: Timing
    scored: bool
    queue_seconds: float
    preemptions: int
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Sampling:
    """What every request of a burst asks for; the seed of request i is ``seed + i``."""

    lengths: Lengths = Lengths.LOG
    temperature: float = 0.6
    repetition_penalty: float = 1.0
    own_limit: int = 512
    seed: int = 1

    def params(self, index: int, item: Item) -> generate_pb2.SamplingParams:
        logged = self.lengths is Lengths.LOG
        return generate_pb2.SamplingParams(
            max_tokens=item.output_tokens if logged else self.own_limit,
            ignore_eos=logged,
            temperature=self.temperature,
            repetition_penalty=self.repetition_penalty,
            seed=self.seed + index,
        )


async def drive(
    target: str,
    items: Sequence[Item],
    sampling: Sampling,
    *,
    run: str,
    progress: Callable[[int], None] = lambda tokens: None,
) -> list[Reply]:
    """Send ``items`` to the engine at ``target`` at their times; one reply each, in their order.

    ``run`` makes request ids unique across repetitions. ``progress`` is told of new tokens.
    Raises an exception group of ``grpc.aio.AioRpcError`` and ``ServiceFailed`` from the streams
    that fail first; the others are cancelled.
    """
    async with grpc.aio.insecure_channel(target) as channel:
        stub = generate_pb2_grpc.GenerateServiceStub(channel)
        start = time.monotonic() + 0.1
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    _one(stub, item, sampling.params(i, item), f"{run}-{i}", start, progress)
                )
                for i, item in enumerate(items)
            ]
        return [task.result() for task in tasks]


async def _one(
    stub: generate_pb2_grpc.GenerateServiceStub,
    item: Item,
    params: generate_pb2.SamplingParams,
    request_id: str,
    start: float,
    progress: Callable[[int], None],
) -> Reply:
    await asyncio.sleep(start + item.at - time.monotonic())
    request = generate_pb2.GenerateRequest(
        chat=generate_pb2.ChatInput(
            messages=[generate_pb2.ChatMessage(role="user", content=item.prompt)]
        ),
        sampling=params,
        request_id=request_id,
    )
    sent = time.monotonic()
    first: float | None = None
    async for response in stub.Generate(request):
        now = time.monotonic()
        if response.WhichOneof("event") == "chunk":
            if first is None and response.chunk.token_ids:
                first = now
            progress(len(response.chunk.token_ids))
            continue
        finish = response.finish
        if finish.reason not in (
            generate_pb2.FINISH_REASON_STOP,
            generate_pb2.FINISH_REASON_LENGTH,
        ):
            reason = generate_pb2.FinishReason.Name(finish.reason)
            raise ServiceFailed(f"request {request_id} ended with {reason}")
        timing = Timing(
            request_id=request_id,
            arrival=sent,
            first_token=now if first is None else first,
            finished=now,
            prompt_tokens=finish.prompt_tokens,
            output_tokens=finish.output_tokens,
        )
        return Reply(
            timing,
            scored=finish.scored,
            queue_seconds=finish.queue_seconds,
            preemptions=finish.preemptions,
            cut=finish.reason == generate_pb2.FINISH_REASON_LENGTH,
        )
    raise ServiceFailed(f"the stream of request {request_id} ended without a finish")
