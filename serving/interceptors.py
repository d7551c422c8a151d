"""What every call of our gRPC services passes through: parsing, deadline, drain, errors, counts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from serving.drain import Gate
from serving.errors import Kind, RequestError, grpc_details, invalid
from serving.logs import failure
from serving.wire import invalid_utf8

log = logging.getLogger(__name__)

#: Told of each call when it ends: method, status code name, seconds.
Observer = Callable[[str, str, float], None]


@dataclass(frozen=True, slots=True)
class _Malformed:
    """Stands for a message that did not parse; gRPC itself would answer INTERNAL."""

    field: str


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc ships no types
    """Wraps the services named by ``requests``; health and reflection pass untouched.

    ``requests`` maps a full method name to the descriptor of its request.
    """

    def __init__(
        self,
        requests: dict[str, Descriptor],
        gate: Gate,
        observe: Observer = lambda method, code, seconds: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests = requests
        self._gate = gate
        self._observe = observe
        self._clock = clock

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        descriptor = self._requests.get(method)
        if handler is None or descriptor is None:
            return handler
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._streaming(method, handler.unary_stream),
                _lenient(handler.request_deserializer, descriptor),
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._unary(method, handler.unary_unary),
            _lenient(handler.request_deserializer, descriptor),
            handler.response_serializer,
        )

    def _unary(self, method: str, behaviour: Callable[..., Awaitable[Any]]) -> Any:
        async def call(request: Any, context: grpc.aio.ServicerContext) -> Any:
            # What is re-raised below is a cancellation: the caller left or its deadline passed.
            started, code = self._clock(), "CANCELLED"
            try:
                with self._gate.entered():
                    _admit(request, context)
                    answer = await behaviour(request, context)
                code = "OK"
                return answer
            except BaseException as error:
                code, told = _explain(error)
                await _abort(context, told)
            finally:
                self._observe(method, code, self._clock() - started)

        return call

    def _streaming(self, method: str, behaviour: Callable[..., AsyncIterator[Any]]) -> Any:
        async def call(request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
            started, code = self._clock(), "CANCELLED"
            try:
                with self._gate.entered():
                    _admit(request, context)
                    async with aclosing(behaviour(request, context)) as responses:  # type: ignore[type-var]
                        async for response in responses:
                            yield response
                code = "OK"
            except BaseException as error:
                code, told = _explain(error)
                await _abort(context, told)
            finally:
                self._observe(method, code, self._clock() - started)

        return call


def _admit(request: Any, context: grpc.aio.ServicerContext) -> None:
    remaining = context.time_remaining()
    if remaining is not None and remaining <= 0:
        raise RequestError(Kind.DEADLINE, "the deadline passed before the call was started")
    if isinstance(request, _Malformed):
        if request.field:
            raise invalid(request.field, "must be UTF-8 text")
        raise invalid("", "the request is not a valid protobuf message of this method")


def _explain(error: BaseException) -> tuple[str, RequestError]:
    """Status name and what the caller is told; what must not be told is logged and re-raised."""
    if isinstance(error, RequestError):
        return error.kind.value.grpc.name, error
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        raise error
    if not isinstance(error, Exception):
        raise error
    # The text of an unexpected error may quote a prompt, so it goes neither to the caller nor to
    # the log; the log gets its type and where it came from.
    log.error("%s", failure(error))
    return "INTERNAL", RequestError(Kind.INTERNAL, "internal error; the server's log has more")


async def _abort(context: grpc.aio.ServicerContext, error: RequestError) -> NoReturn:
    await context.abort(error.kind.value.grpc, error.message, grpc_details(error))
    raise AssertionError("abort always raises")


def _lenient(parse: Callable[[bytes], Any], descriptor: Descriptor) -> Callable[[bytes], Any]:
    def deserialise(data: bytes) -> Any:
        try:
            return parse(data)
        except (DecodeError, UnicodeError):
            return _Malformed(invalid_utf8(descriptor, data))

    return deserialise


def methods(service: Any) -> dict[str, Descriptor]:
    """Full method names of a service descriptor, with the descriptor of each one's request."""
    return {f"/{service.full_name}/{m.name}": m.input_type for m in service.methods}
