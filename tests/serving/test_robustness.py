"""The real loop and server over real sockets, when clients leave, steps fail, and engines die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from engine.executor import MovesFailed
from serving.cli import main
from serving.engine_server import EngineStopped
from shortfirst.generate.v1 import generate_pb2
from tests.serving.loop_parts import Running, serve_loop
from tests.serving.parts import SECRET

BODY = {"prompt": "one two", "stream": True}
Code = grpc.StatusCode


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with serve_loop(tmp_path) as made:
        yield made


class Events:
    """Of one stream over HTTP, as they arrive at the socket."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()

    async def next(self) -> Any:
        async for line in self._lines:
            if line == "data: [DONE]":
                return None
            if line:
                return json.loads(line.removeprefix("data: "))
        raise AssertionError("the stream ended without [DONE]")

    async def rest(self) -> list[Any]:
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found


async def ended(call: grpc.aio.UnaryStreamCall) -> tuple[list[Any], Code]:
    """What is left of a stream, and its status."""
    found = []
    with contextlib.suppress(grpc.aio.AioRpcError):
        while (message := await call.read()) is not grpc.aio.EOF:
            found.append(message)
    assert SECRET not in (await call.details() or "")
    return found, await call.code()


async def test_a_token_arrives_before_the_next_step_is_taken(running: Running) -> None:
    """Neither server nor HTTP nor gRPC holds tokens back for more of them."""
    script = running.script
    async with running.http.stream("POST", "/v1/completions", json=BODY) as response:
        events = Events(response)
        for step in (1, 2, 3):
            script.permit.release()
            assert (await events.next())["choices"][0]["text"]
            assert script.done == step  # the next one may not even begin
        script.open()
        assert (await events.rest())[-1]["choices"][0]["finish_reason"] == "stop"
        script.permit = threading.Semaphore(0)
        before = script.done
        call = running.generate()
        for step in (1, 2, 3):
            script.permit.release()
            assert (await call.read()).chunk.text
            assert script.done == before + step
        script.open()
        messages, code = await ended(call)
        assert (len(messages), code) == (4, Code.OK)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_a_client_that_leaves_is_freed_while_its_step_runs(
    running: Running, protocol: str
) -> None:
    loop, script = running.backend.loop, running.script
    script.permit.release()
    if protocol == "http":
        async with running.http.stream("POST", "/v1/completions", json=BODY) as response:
            await Events(response).next()
            await running.until(lambda: script.steps == 2)
            assert loop.stats().kv_usage > 0.0
    else:
        call = running.generate()
        await call.read()
        await running.until(lambda: script.steps == 2)
        assert loop.stats().kv_usage > 0.0
        call.cancel()
    # The second step is still under way and nothing else is permitted.
    await running.until(lambda: loop.stats().kv_usage == 0.0)
    assert script.done == 1
    script.permit.release()
    await running.until(lambda: not script.sequences)
    assert script.steps == 2


async def test_a_client_that_leaves_the_queue_is_forgotten(running: Running) -> None:
    loop = running.backend.loop
    held = [running.generate() for _ in range(4)]
    await running.until(lambda: loop.stats().running + loop.stats().waiting == 4)
    running.script.permit.release()
    await running.until(lambda: loop.stats().running == 4)
    waits = running.generate()
    await running.until(lambda: loop.stats().waiting == 1)
    waits.cancel()
    await running.until(lambda: loop.stats().waiting == 0)
    running.script.open()
    assert [code for _, code in [await ended(call) for call in held]] == [Code.OK] * 4


async def test_a_failing_step_ends_its_requests_with_an_error_and_the_engine_goes_on(
    running: Running,
) -> None:
    script = running.script
    script.permit.release()
    async with running.http.stream("POST", "/v1/completions", json=BODY) as response:
        events = Events(response)
        await events.next()
        whole = asyncio.ensure_future(running.http.post("/v1/completions", json={"prompt": "x"}))
        call = running.generate()
        await running.until(lambda: running.backend.loop.stats().waiting == 2)
        script.permit.release()  # the step under way, without them
        await running.until(lambda: script.steps == 3)
        script.fail_next = RuntimeError(f"{SECRET} does not fit")
        script.permit.release()
        last = (await events.rest())[-1]
        assert last["error"]["type"] == "server_error"
        assert SECRET not in str(last)
        messages, code = await ended(call)
        assert (messages[-1].finish.reason, code) == (
            generate_pb2.FINISH_REASON_ERROR, Code.INTERNAL,
        )  # fmt: skip
        assert (await whole).status_code == 500
    script.open()
    _, code = await ended(running.generate())
    assert code is Code.OK
    assert (await running.http.get("/health")).status_code == 200
    assert running.backend.loop.stats().kv_usage == 0.0


async def test_when_the_loop_dies_health_says_so_and_every_stream_ends(tmp_path: Path) -> None:
    async with serve_loop(tmp_path) as running:
        script = running.script
        health = health_pb2_grpc.HealthStub(running.channel)
        watch = health.Watch(health_pb2.HealthCheckRequest())
        Status = health_pb2.HealthCheckResponse
        assert (await watch.read()).status == Status.SERVING
        calls = [running.generate() for _ in range(3)]
        async with running.http.stream("POST", "/v1/completions", json=BODY) as response:
            loop = running.backend.loop
            await running.until(lambda: loop.stats().running + loop.stats().waiting == 4)
            waiting = running.generate()
            await running.until(lambda: loop.stats().running + loop.stats().waiting == 5)
            script.fail_next = MovesFailed("blocks were lost")
            script.permit.release()
            for call in [*calls, waiting]:
                messages, code = await ended(call)
                assert code is Code.INTERNAL
                assert messages[-1].finish.reason == generate_pb2.FINISH_REASON_ERROR
            assert (await Events(response).rest())[-1]["error"]["type"] == "server_error"
        assert (await watch.read()).status == Status.NOT_SERVING
        with pytest.raises(EngineStopped):
            await asyncio.wait_for(running.task, 20)


async def test_streams_end_within_the_drain_and_newcomers_are_refused(running: Running) -> None:
    script = running.script
    script.permit.release()
    async with running.http.stream("POST", "/v1/completions", json=BODY) as response:
        events = Events(response)
        await events.next()
        call = running.generate()
        await running.until(lambda: running.backend.loop.stats().waiting == 1)
        running.stop.receive()
        await running.until(lambda: running.stop.asked.is_set())
        while (await running.http.get("/health")).status_code == 200:
            await asyncio.sleep(0)
        refused = await running.http.post("/v1/completions", json={"prompt": "x"})
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert (await ended(running.generate()))[1] is Code.UNAVAILABLE
        script.open()
        assert (await events.rest())[-1]["choices"][0]["finish_reason"] == "stop"
        messages, code = await ended(call)
        assert (len(messages), code) == (7, Code.OK)
    await asyncio.wait_for(running.task, 20)


async def test_what_the_deadline_of_a_drain_cuts_off_ends_with_an_error(tmp_path: Path) -> None:
    async with serve_loop(tmp_path, drain_s=0.0) as running:
        running.script.permit.release()
        async with running.http.stream("POST", "/v1/completions", json=BODY) as response:
            events = Events(response)
            await events.next()
            call = running.generate()
            await running.until(lambda: running.backend.loop.stats().waiting == 1)
            running.stop.receive()
            assert (await events.rest())[-1]["error"]["type"] == "service_unavailable_error"
            messages, code = await ended(call)
            assert code is Code.UNAVAILABLE
            assert messages[-1].finish.reason == generate_pb2.FINISH_REASON_ABORT
        running.script.open()
        await asyncio.wait_for(running.task, 20)


def test_an_engine_that_stops_by_itself_ends_its_command_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve(*args: object, **kwargs: object) -> None:
        raise EngineStopped("the engine loop ended by itself; the log says why")

    monkeypatch.setattr("serving.engine_run.serve", serve)
    monkeypatch.setattr("sys.argv", ["shortfirst", "engine", "--log-level", "error"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    assert "ended by itself" in capsys.readouterr().err
