"""``shortfirst.generate.v1.GenerateService``: tokens stream out; cancelling frees their memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import grpc

from engine.events import Ended
from serving.errors import RequestError, invalid
from serving.generate_messages import accepted, response
from serving.generation import failure_of
from serving.generator import Generator
from serving.job import ChatTurn, Include, Job, trace_of
from serving.limits import Limits
from serving.sampling import FIELDS, make_sampling
from shortfirst.generate.v1 import generate_pb2, generate_pb2_grpc

_ROLES = ("system", "user", "assistant")
#: How the generation's fields are called in this protocol.
_NAMES = {"messages": "chat.messages"} | {name: f"sampling.{name}" for name in FIELDS}


class GenerateService(generate_pb2_grpc.GenerateServiceServicer):  # type: ignore[misc]
    """Raises ``RequestError``, which ``serving.interceptors.Guard`` turns into a status."""

    def __init__(self, generator: Generator, limits: Limits | None = None) -> None:
        self._generator = generator
        self._limits = limits or Limits()

    async def Generate(
        self, request: generate_pb2.GenerateRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[generate_pb2.GenerateResponse]:
        try:
            job = job_from(request, self._limits)
            job = replace(job, trace=trace_of(context.invocation_metadata() or ()))
            generation = await self._generator.start(job)
        except RequestError as error:
            raise _renamed(error) from None
        # The client may be gone while the generator below is not running.
        context.add_done_callback(lambda _: generation.close())
        if (first := accepted(generation)) is not None:
            yield first
        async for event in generation.events():
            yield response(generation, event)
            # Whoever looks at the status alone must not take half an answer for a whole one.
            if isinstance(event, Ended) and (failed := failure_of(event)) is not None:
                raise failed


def job_from(request: generate_pb2.GenerateRequest, limits: Limits) -> Job:
    """Raises INVALID naming the field."""
    which = request.WhichOneof("input")
    if which is None:
        raise invalid("prompt", "set either prompt or chat")
    turns: tuple[ChatTurn, ...] = ()
    if which == "chat":
        if len(request.chat.messages) > limits.max_messages:
            raise invalid("chat.messages", f"at most {limits.max_messages}")
        for i, message in enumerate(request.chat.messages):
            if message.role not in _ROLES:
                raise invalid(f"chat.messages[{i}].role", "must be system, user or assistant")
        turns = tuple(ChatTurn(m.role, m.content) for m in request.chat.messages)
    sampling = request.sampling
    given = {
        name: getattr(sampling, name)
        for name in FIELDS
        # Those without presence have their zero for a default.
        if not sampling.DESCRIPTOR.fields_by_name[name].has_presence or sampling.HasField(name)
    }
    given["stop"] = tuple(sampling.stop)
    given["stop_token_ids"] = tuple(sampling.stop_token_ids)
    given["logit_bias"] = tuple(sampling.logit_bias.items())
    return Job(
        model=request.model,
        prompt=request.prompt if which == "prompt" else None,
        turns=turns,
        sampling=make_sampling(given, "sampling."),
        request_id=request.request_id,
        tenant=request.tenant,
        lane=request.lane,
        priority=request.priority,
        include=Include(
            forecast=request.include.forecast,
            queue_position=request.include.queue_position,
            timing=request.include.timing,
        ),
    )


def _renamed(error: RequestError) -> RequestError:
    name = _NAMES.get(error.field)
    if name is not None:
        error.message = error.message.replace(error.field, name, 1)
        error.field = name
    return error
