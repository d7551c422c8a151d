"""The OpenAI-compatible face of the engine: models, completions, chat, health and metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from serving import jsonbody, openai_schema
from serving.choices import Choices
from serving.drain import Gate
from serving.errors import Kind, RequestError, http_headers, openai_body
from serving.generator import Generator
from serving.job import trace_of
from serving.limits import Limits
from serving.logs import failure
from serving.openai_answer import Answer, ChatAnswer, TextAnswer
from serving.openai_reply import Reply
from serving.sse import DONE, Disconnected, Receive, Send, event, send_events, unless_disconnected

log = logging.getLogger(__name__)

#: Names the lane of a request whose body does not.
LANE_HEADER = "x-shortfirst-lane"

Parse = Callable[[Mapping[str, Any], Limits], openai_schema.Call]


class OpenAI:
    """Handlers over one generator. ``wall_clock`` gives Unix seconds for ``created``."""

    def __init__(
        self,
        generator: Generator,
        gate: Gate,
        registry: CollectorRegistry,
        limits: Limits | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._generator = generator
        self._gate = gate
        self._registry = registry
        self._limits = limits or Limits()
        self._wall_clock = wall_clock
        self._since = int(wall_clock())

    def app(self) -> Starlette:
        post = ["POST"]
        text = _Endpoint(self, openai_schema.completion, TextAnswer)
        chat = _Endpoint(self, openai_schema.chat, ChatAnswer)
        return Starlette(
            routes=[
                Route("/health", self.health),
                Route("/metrics", self.metrics),
                Route("/v1/models", self.models),
                Route("/v1/models/{model:path}", self.model),
                Route("/v1/completions", text, methods=post),
                Route("/v1/chat/completions", chat, methods=post),
            ],
            exception_handlers={HTTPException: _http_error},
        )

    async def health(self, request: Request) -> Response:
        """200 while requests are taken; 503 when draining or when the engine has stopped."""
        if self._gate.closed or not self._generator.ready:
            return JSONResponse({"status": "unavailable"}, 503)
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        try:
            self._generator.check_model(request.path_params["model"])
        except RequestError as error:
            return error_response(error)
        return JSONResponse(self._model())

    async def generate(
        self, request: Request, send: Send, parse: Parse, kind: type[Answer]
    ) -> None:
        """Answer one generation request in full. Raises what keeps it from starting."""
        announced = request.headers.get("content-length")
        # Outside: a stop must not wait for a client that never ends its request.
        body = await jsonbody.read(request.stream(), announced, self._limits.max_message_bytes)
        with self._gate.entered():
            call = parse(jsonbody.parse(body), self._limits)
            # For gateways, and clients that cannot add a field.
            call = call.in_lane(request.headers.get(LANE_HEADER, ""))
            call = call.traced(trace_of(request.headers.items()))
            await unless_disconnected(self._answer(call, kind, request, send), request.receive)

    async def _answer(
        self, call: openai_schema.Call, kind: type[Answer], request: Request, send: Send
    ) -> None:
        choices = Choices(self._generator, call.best_of)
        try:
            await choices.start(call.jobs)
            created = int(self._wall_clock())
            answer = kind(choices[0].request_id, self._generator.model, created)
            reply = Reply(call, choices, answer, self._generator)
            if call.streaming.on:
                await send_events(reply.stream(), send)
            else:
                whole = JSONResponse(await reply.whole())
                await whole(request.scope, request.receive, send)
        finally:
            choices.close()

    def _model(self) -> dict[str, Any]:
        return {
            "id": self._generator.model,
            "object": "model",
            "created": self._since,
            "owned_by": "shortfirst",
            "max_model_len": self._generator.context_length,
        }


class _Endpoint:
    """An ASGI application for one path that turns errors into answers."""

    def __init__(self, openai: OpenAI, parse: Parse, kind: type[Answer]) -> None:
        self._openai = openai
        self._parse = parse
        self._kind = kind

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            request = Request(scope, receive)
            await self._openai.generate(request, watched, self._parse, self._kind)
            return
        except (Disconnected, ClientDisconnect):
            return
        except asyncio.CancelledError:
            # The server stops and the drain is over; the request was freed on the way here.
            if started:
                await _cut(send)
                return
            response = error_response(_STOPPING)
        except RequestError as error:
            response = error_response(error)
        except Exception as error:
            log.error("%s", failure(error))
            if started:
                return
            response = error_response(_INTERNAL)
        await response(scope, receive, send)


_INTERNAL = RequestError(Kind.INTERNAL, "internal error; the server's log has more")
_STOPPING = RequestError(
    Kind.UNAVAILABLE, "the server stopped before the answer was complete", retry_after_s=1.0
)


async def _cut(send: Send) -> None:
    """End a stream that the server cannot finish. Only streams start before they are complete."""
    body = event(openai_body(_STOPPING)) + DONE
    await send({"type": "http.response.body", "body": body, "more_body": False})


def error_response(error: RequestError) -> Response:
    return JSONResponse(openai_body(error), error.kind.value.http, http_headers(error))


async def _http_error(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in the shape OpenAI clients read."""
    assert isinstance(error, HTTPException)
    body = {"message": error.detail, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": body}, error.status_code, error.headers)
