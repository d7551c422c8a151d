"""The generate service over a real socket, and ranking as seen from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from serving.breaker import BreakerConfig
from serving.job import ChatTurn, Job
from serving.rank_client import RankClient, RankClientConfig
from serving.sampling import make_sampling
from shortfirst.generate.v1 import generate_pb2
from tests.serving.engine_parts import Front, WordBackend, serve_front
from tests.serving.parts import SECRET, serve_rank

Code = grpc.StatusCode
Params = generate_pb2.SamplingParams
Message = generate_pb2.ChatMessage


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async with serve_front() as running:
        yield running


def text(prompt: str = "one two", **fields: object) -> generate_pb2.GenerateRequest:
    return generate_pb2.GenerateRequest(prompt=prompt, **fields)  # type: ignore[arg-type]


def chat(*messages: tuple[str, str]) -> generate_pb2.GenerateRequest:
    turns = [Message(role=role, content=content) for role, content in messages]
    return generate_pb2.GenerateRequest(chat=generate_pb2.ChatInput(messages=turns))


async def answers(call: object) -> list[generate_pb2.GenerateResponse]:
    return [response async for response in call]  # type: ignore[attr-defined]


async def refused(call: object) -> tuple[Code, list[str], str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answers(call)
    status = rpc_status.from_call(caught.value)
    fields = []
    for detail in status.details if status else ():
        bad = error_details_pb2.BadRequest()
        if detail.Unpack(bad):
            fields += [v.field for v in bad.field_violations]
    message = caught.value.details() or ""
    assert SECRET not in message
    return caught.value.code(), fields, message


async def test_chunks_then_exactly_one_finish(front: Front) -> None:
    got = await answers(front.stub.Generate(text(request_id="mine")))
    assert [r.WhichOneof("event") for r in got] == ["chunk", "chunk", "chunk", "finish"]
    assert "".join(r.chunk.text for r in got) == "w0 w1 w2 "
    assert [list(r.chunk.token_ids) for r in got[:3]] == [[0], [1], [2]]
    assert {r.request_id for r in got} == {"mine"}
    finish = got[-1].finish
    assert finish.reason == generate_pb2.FINISH_REASON_STOP
    assert (finish.prompt_tokens, finish.output_tokens, finish.scored) == (2, 3, False)
    assert finish.queue_seconds == 0.25


async def test_sampling_reaches_the_engine(front: Front) -> None:
    sampling = Params(
        max_tokens=9, temperature=0.0, top_p=0.5, top_k=3, seed=(1 << 64) - 1, ignore_eos=True
    )
    got = await answers(front.stub.Generate(text(sampling=sampling, tenant="acme")))
    assert got[-1].finish.reason == generate_pb2.FINISH_REASON_LENGTH
    assert got[-1].finish.output_tokens == 9
    ((params, _, tenant),) = front.backend.submitted.values()
    assert (params.temperature, params.top_p, params.top_k) == (0.0, 0.5, 3)
    assert (params.seed, params.repetition_penalty, tenant) == ((1 << 64) - 1, 1.0, "acme")


async def test_all_of_sampling_reaches_the_engine_and_probabilities_come_back(
    front: Front,
) -> None:
    sampling = Params(
        presence_penalty=0.5, frequency_penalty=-0.5, min_p=0.25, min_tokens=1, stop=["x", "y"],
        stop_token_ids=[5], include_stop_str_in_output=True, skip_special_tokens=False, logprobs=1,
        prompt_logprobs=1, logit_bias={7: -2.5},
    )  # fmt: skip
    got = await answers(front.stub.Generate(text(sampling=sampling)))
    ((params, _, _),) = front.backend.submitted.values()
    assert (params.presence_penalty, params.frequency_penalty) == (0.5, -0.5)
    assert (params.min_p, params.min_tokens, params.stop) == (0.25, 1, ("x", "y"))
    assert (params.stop_token_ids, params.logit_bias) == ((5,), ((7, -2.5),))
    assert params.include_stop_str_in_output
    assert not params.skip_special_tokens
    first, second = got[0].chunk, got[1].chunk
    assert [(e.token_id, e.HasField("logprob")) for e in first.prompt_logprobs] == [
        (7, False), (7, True),
    ]  # fmt: skip
    assert [(e.token_id, e.logprob) for e in second.logprobs] == [(1, -1.5)]
    assert [(t.token_id, t.logprob) for t in second.logprobs[0].top] == [(9, -1.0)]
    assert not second.prompt_logprobs
    plain = await answers(front.stub.Generate(text()))
    assert not plain[0].chunk.logprobs
    assert plain[-1].finish.WhichOneof("stop") is None


@pytest.mark.parametrize(
    ("bad", "code", "field"),
    [
        (generate_pb2.GenerateRequest(), Code.INVALID_ARGUMENT, "prompt"),
        (text(""), Code.INVALID_ARGUMENT, "prompt"),
        (text(f"{SECRET} " * 64), Code.INVALID_ARGUMENT, "prompt"),
        (text(SECRET * 60_000), Code.INVALID_ARGUMENT, "prompt"),
        (text(model="huge"), Code.NOT_FOUND, "model"),
        (text(sampling=Params(max_tokens=-1)), Code.INVALID_ARGUMENT, "sampling.max_tokens"),
        (text(sampling=Params(max_tokens=0)), Code.INVALID_ARGUMENT, "sampling.max_tokens"),
        (text(sampling=Params(max_tokens=63)), Code.INVALID_ARGUMENT, "sampling.max_tokens"),
        (text(sampling=Params(temperature=-1)), Code.INVALID_ARGUMENT, "sampling.temperature"),
        (
            text(sampling=Params(temperature=float("nan"))),
            Code.INVALID_ARGUMENT,
            "sampling.temperature",
        ),
        (text(sampling=Params(top_p=0)), Code.INVALID_ARGUMENT, "sampling.top_p"),
        (text(sampling=Params(top_k=-1)), Code.INVALID_ARGUMENT, "sampling.top_k"),
        (
            text(sampling=Params(repetition_penalty=-1)),
            Code.INVALID_ARGUMENT,
            "sampling.repetition_penalty",
        ),
        (text(sampling=Params(stop=[""])), Code.INVALID_ARGUMENT, "sampling.stop"),
        (text(sampling=Params(logprobs=21)), Code.INVALID_ARGUMENT, "sampling.logprobs"),
        (
            text(sampling=Params(logit_bias={1: 200})),
            Code.INVALID_ARGUMENT,
            "sampling.logit_bias",
        ),
        (text(request_id="r" * 257), Code.INVALID_ARGUMENT, "request_id"),
        (text(tenant="t" * 257), Code.INVALID_ARGUMENT, "tenant"),
        (chat(), Code.INVALID_ARGUMENT, "chat.messages"),
        (chat(("pirate", "x")), Code.INVALID_ARGUMENT, "chat.messages[0].role"),
        (chat(("user", "")), Code.INVALID_ARGUMENT, "chat.messages"),
        (chat(("assistant", SECRET)), Code.INVALID_ARGUMENT, "chat.messages"),
    ],
)
async def test_a_bad_request_names_its_field(
    front: Front, bad: generate_pb2.GenerateRequest, code: Code, field: str
) -> None:
    got, fields, message = await refused(front.stub.Generate(bad))
    assert (got, fields) == (code, [field])
    assert field in message
    assert front.backend.submitted == {}
    assert (await answers(front.stub.Generate(text())))[-1].finish.output_tokens == 3


async def test_text_that_is_not_utf8_names_its_field(front: Front) -> None:
    call = front.channel.unary_stream("/shortfirst.generate.v1.GenerateService/Generate")
    code, fields, _ = await refused(call(b"\x12\x02\xff\xfe"))
    assert (code, fields) == (Code.INVALID_ARGUMENT, ["prompt"])
    code, fields, _ = await refused(call(b"\x1a\x08\x0a\x06\x0a\x00\x12\x02\xff\xfe"))
    assert (code, fields) == (Code.INVALID_ARGUMENT, ["chat.messages[0].content"])


async def test_ten_megabytes_are_refused(front: Front) -> None:
    code, _, _ = await refused(front.stub.Generate(text("x" * 10_000_000)))
    assert code is Code.RESOURCE_EXHAUSTED


async def test_a_full_queue_and_a_dead_engine(front: Front) -> None:
    front.backend.max_running = 0
    assert (await refused(front.stub.Generate(text())))[0] is Code.RESOURCE_EXHAUSTED
    front.backend.alive = False
    assert (await refused(front.stub.Generate(text())))[0] is Code.UNAVAILABLE


async def test_a_cancelled_stream_and_a_passed_deadline_free_the_request() -> None:
    async with serve_front(WordBackend(held=asyncio.Event())) as front:
        call = front.stub.Generate(text(request_id="left"))
        assert (await call.read()).chunk.text == "w0 "
        call.cancel()
        await front.until_running(0)
        code, _, _ = await refused(front.stub.Generate(text(request_id="late"), timeout=0.2))
        assert code is Code.DEADLINE_EXCEEDED
        await front.until_running(0)
        assert front.backend.aborted == ["left", "late"]
        page = (await front.client.get("/metrics")).text
        assert 'shortfirst_engine_requests_total{finish_reason="abort",scored="false"} 2.0' in page
        assert await front.gate.wait_empty(10)


async def test_an_id_that_is_running_is_refused() -> None:
    async with serve_front(WordBackend(held=asyncio.Event())) as front:
        held = front.backend.held
        assert held is not None
        first = asyncio.ensure_future(answers(front.stub.Generate(text(request_id="twin"))))
        await front.until_running(1)
        code, fields, _ = await refused(front.stub.Generate(text(request_id="twin")))
        assert (code, fields) == (Code.ALREADY_EXISTS, ["request_id"])
        held.set()
        assert (await first)[-1].finish.output_tokens == 3
        await answers(front.stub.Generate(text(request_id="twin")))
        front.backend.leaving.add("twin")  # aborted, and the engine's step is not over yet
        code, fields, _ = await refused(front.stub.Generate(text(request_id="twin")))
        assert (code, fields) == (Code.ALREADY_EXISTS, ["request_id"])
        front.backend.leaving.clear()
        await answers(front.stub.Generate(text(request_id="twin")))


async def test_streams_complete_and_go_unscored_while_the_rank_service_is_away() -> None:
    async with serve_rank() as rank:
        address = rank.address
        settings = RankClientConfig(
            address, 5.0, breaker=BreakerConfig(failures=1, open_s=0.01, max_open_s=0.05)
        )
        async with RankClient(settings) as ranks, serve_front(forecaster=ranks) as front:

            async def scored() -> bool:
                got = await answers(front.stub.Generate(chat(("user", "one two three"))))
                assert got[-1].finish.output_tokens == 3
                return bool(got[-1].finish.scored)

            assert await scored()
            *_, (_, forecast, _) = front.backend.submitted.values()
            assert forecast is not None
            assert forecast.score == 3.0
            await rank.server.stop()
            assert [await scored() for _ in range(5)] == [False] * 5
            async with serve_rank(address=address), asyncio.timeout(20):
                while not await scored():
                    await asyncio.sleep(0.01)


def test_the_ranker_is_asked_about_what_the_user_said_last() -> None:
    sampling = make_sampling({}, "")
    turns = (
        ChatTurn("system", "frame"), ChatTurn("user", "first"),
        ChatTurn("assistant", "answer"), ChatTurn("user", "last"),
    )  # fmt: skip
    assert Job("", None, turns, sampling).ranked_text == "last"
    assert Job("", None, turns[:1], sampling).ranked_text == "frame"
    assert Job("", "plain", (), sampling).ranked_text == "plain"
