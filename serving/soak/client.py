"""Plays an act against the server, and says what came of it; ``!`` first where that is wrong."""

from __future__ import annotations

from typing import Any

import grpc

from serving.soak.acts import Act, Kind
from serving.soak.http import Reply, post
from shortfirst.generate.v1 import generate_pb2, generate_pb2_grpc

_Code = grpc.StatusCode
_SAMPLING = ("max_tokens", "temperature", "top_p", "seed", "ignore_eos")
_REFUSALS = (_Code.INVALID_ARGUMENT, _Code.NOT_FOUND)


class Client:
    """``http``: host and port. ``channel`` is shared by all calls, as clients do."""

    def __init__(self, http: tuple[str, int], channel: grpc.aio.Channel) -> None:
        self._http = http
        self._stub = generate_pb2_grpc.GenerateServiceStub(channel)

    async def play(self, act: Act) -> str:
        """``ok``, ``busy`` (refused for want of room), ``refused`` (by name), ``left``, ``late`` or
        ``failed`` (with its step); anything else begins with ``!``."""
        leave = act.chunks if act.kind is Kind.LEAVE else None
        if act.protocol == "grpc":
            return await self._call(act, leave)
        body = act.fields | {"stream": act.stream}
        # Without a stream there are no chunks to leave after.
        leave = 0 if leave is not None and not act.stream else leave
        return _judge(act, await post(self._http, "/v1/completions", body, leave), leave)

    async def _call(self, act: Act, leave: int | None) -> str:
        call = self._stub.Generate(_message(act.fields), timeout=act.deadline_s)
        tokens = chunks = 0
        reason = None
        if leave == 0:
            call.cancel()
            return "left"
        try:
            while (message := await call.read()) is not grpc.aio.EOF:
                tokens += len(message.chunk.token_ids)
                chunks += message.WhichOneof("event") == "chunk"
                if message.WhichOneof("event") == "finish":
                    reason = message.finish.reason
                if leave is not None and chunks >= leave:
                    call.cancel()
                    return "left"
        except grpc.aio.AioRpcError as error:
            return _refusal(act, error.code())
        if act.kind is Kind.BAD:
            return "!bad input was answered"
        if reason not in (generate_pb2.FINISH_REASON_STOP, generate_pb2.FINISH_REASON_LENGTH):
            return f"!ended for reason {reason}"
        return _counted(act, tokens)


def _message(fields: dict[str, Any]) -> generate_pb2.GenerateRequest:
    given = {name: fields[name] for name in _SAMPLING if name in fields}
    return generate_pb2.GenerateRequest(
        model=fields.get("model", ""),
        prompt=fields["prompt"],
        sampling=generate_pb2.SamplingParams(**given),
        tenant=fields["user"],
        lane=fields["lane"],
        priority=fields.get("priority", 0),
        include=generate_pb2.Include(timing=True),
    )


def _refusal(act: Act, code: grpc.StatusCode) -> str:
    if code is _Code.RESOURCE_EXHAUSTED:
        return "busy"
    if code is _Code.INTERNAL and act.kind is not Kind.BAD:
        return "failed"
    if act.kind is Kind.BAD and code in _REFUSALS:
        return "refused"
    if act.kind is Kind.DEADLINE and code is _Code.DEADLINE_EXCEEDED:
        return "late"
    return f"!{code.name.lower()}"


def _judge(act: Act, reply: Reply, leave: int | None) -> str:
    if leave is not None and (leave == 0 or len(reply.events) >= leave):
        return "left"
    if reply.status == 429:
        return "busy"
    if act.kind is Kind.BAD:
        return "refused" if reply.status in (400, 404) else f"!bad input got {reply.status}"
    if reply.status == 500:
        return "failed"
    if reply.status != 200:
        return f"!status {reply.status}"
    if not act.stream:
        return _counted(act, reply.events[0]["usage"]["completion_tokens"])
    if not reply.done:
        return "!the stream broke off"
    if "error" in reply.events[-1]:
        kind = reply.events[-1]["error"]["type"]
        return "failed" if kind == "server_error" else f"!{kind}"
    return "ok"


def _counted(act: Act, tokens: int) -> str:
    wanted = act.answers * act.fields["max_tokens"]
    right = tokens == wanted if act.exact else 0 < tokens <= wanted
    return "ok" if right else f"!{tokens} tokens of {wanted}"
