"""What a client can do wrong over HTTP, and what it is told."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.serving.engine_parts import Front, serve_front

TEXT = {"prompt": "one two"}


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async with serve_front() as running:
        yield running


BAD = [
    ({}, 400, "prompt"),
    ({"prompt": ""}, 400, "prompt"),
    ({"prompt": 5}, 400, "prompt"),
    ({"prompt": []}, 400, "prompt"),
    ({"prompt": [1, -2]}, 400, "prompt"),
    ({"prompt": [1, "b"]}, 400, "prompt"),
    ({"prompt": [1, True]}, 400, "prompt"),
    ({"prompt": ["a", 1]}, 400, "prompt[1]"),
    ({"prompt": [[1], [2**40]]}, 400, "prompt[1]"),
    ({"prompt": [[1], []]}, 400, "prompt[1]"),
    ({"prompt": ["a"] * 257}, 400, "prompt"),
    ({"prompt": ["a"] * 200, "n": 2}, 400, "prompt"),
    ({"prompt": [1] * 64}, 400, "prompt"),
    ({"prompt": "x " * 64}, 400, "prompt"),
    ({"prompt": "x" * (1 << 20) + "x"}, 400, "prompt"),
    ({"prompt": "\ud800"}, 400, "prompt"),
    ({**TEXT, "max_tokens": -1}, 400, "max_tokens"),
    ({**TEXT, "max_tokens": 0}, 400, "max_tokens"),
    ({**TEXT, "max_tokens": 63}, 400, "max_tokens"),
    ({**TEXT, "max_tokens": 1e3}, 400, "max_tokens"),
    ({**TEXT, "max_tokens": True}, 400, "max_tokens"),
    ({**TEXT, "max_tokens": "7"}, 400, "max_tokens"),
    ({**TEXT, "max_tokens": 10**40}, 400, "max_tokens"),
    ({**TEXT, "temperature": -0.5}, 400, "temperature"),
    ({**TEXT, "temperature": "hot"}, 400, "temperature"),
    ({**TEXT, "temperature": 10**400}, 400, "temperature"),
    ({**TEXT, "temperature": math.nan}, 400, "temperature"),
    ({**TEXT, "temperature": -math.inf}, 400, "temperature"),
    ({**TEXT, "max_tokens": math.nan}, 400, "max_tokens"),
    ({**TEXT, "frequency_penalty": math.nan}, 400, "frequency_penalty"),
    ({**TEXT, "top_p": 1.5}, 400, "top_p"),
    ({**TEXT, "top_k": -3}, 400, "top_k"),
    ({**TEXT, "seed": -1}, 400, "seed"),
    ({**TEXT, "seed": 1 << 64}, 400, "seed"),
    ({**TEXT, "repetition_penalty": 0}, 400, "repetition_penalty"),
    ({**TEXT, "ignore_eos": "yes"}, 400, "ignore_eos"),
    ({**TEXT, "stream": 1}, 400, "stream"),
    ({**TEXT, "stream_options": {"include_usage": True}}, 400, "stream_options"),
    ({**TEXT, "stream": True, "stream_options": []}, 400, "stream_options"),
    ({**TEXT, "stream": True, "stream_options": {"a": 1}}, 400, "stream_options.a"),
    ({**TEXT, "n": 0}, 400, "n"),
    ({**TEXT, "n": 129}, 400, "n"),
    ({**TEXT, "n": 3, "best_of": 2}, 400, "best_of"),
    ({**TEXT, "best_of": 2, "stream": True}, 400, "best_of"),
    ({**TEXT, "stop": 5}, 400, "stop"),
    ({**TEXT, "stop": ["x", None]}, 400, "stop"),
    ({**TEXT, "stop": ["x" * 257]}, 400, "stop"),
    ({**TEXT, "stop_token_ids": "5"}, 400, "stop_token_ids"),
    ({**TEXT, "logprobs": 21}, 400, "logprobs"),
    ({**TEXT, "logprobs": True}, 400, "logprobs"),
    ({**TEXT, "logit_bias": []}, 400, "logit_bias"),
    ({**TEXT, "logit_bias": {"x": 1}}, 400, "logit_bias"),
    ({**TEXT, "logit_bias": {"5": "x"}}, 400, "logit_bias.5"),
    ({**TEXT, "logit_bias": {"5": 101}}, 400, "logit_bias"),
    ({**TEXT, "min_tokens": 17}, 400, "min_tokens"),
    ({**TEXT, "min_p": 2}, 400, "min_p"),
    ({**TEXT, "presence_penalty": 3}, 400, "presence_penalty"),
    ({**TEXT, "response_format": {"type": "json_object"}}, 400, "response_format"),
    ({**TEXT, "suffix": "x"}, 400, "suffix"),
    ({**TEXT, "use_beam_search": True}, 400, "use_beam_search"),
    ({**TEXT, "chat_template": "x"}, 400, "chat_template"),
    ({**TEXT, "temprature": 0}, 400, "temprature"),
    ({**TEXT, "user": "u" * 257}, 400, "user"),
    ({**TEXT, "model": 3}, 400, "model"),
    ({**TEXT, "model": "huge"}, 404, "model"),
]


@pytest.mark.parametrize(("body", "status", "param"), BAD)
async def test_a_bad_completion_names_its_field(
    front: Front, body: dict[str, Any], status: int, param: str
) -> None:
    answer = await front.client.post("/v1/completions", content=json.dumps(body))
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param)
    assert param in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    assert front.backend.submitted == {}
    assert (await front.client.get("/health")).status_code == 200


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"),
        ([], "messages"),
        ("hello", "messages"),
        (["hello"], "messages[0]"),
        ([{"role": "pirate", "content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        (
            [{"role": "user", "content": [{"type": "text", "text": "x", "txet": 1}]}],
            "messages[0].content[0].txet",
        ),
        ([{"role": "user", "content": "x", "extra": 1}], "messages[0].extra"),
        ([{"role": "user", "content": ""}], "messages"),
        ([{"role": "assistant", "content": "x"}], "messages"),
        ([{"role": "user", "content": "x"}] * 1025, "messages"),
        ([{"role": "user", "content": "x " * 64}], "messages"),
    ],
)
async def test_a_bad_chat_names_its_field(front: Front, messages: Any, param: str) -> None:
    answer = await front.client.post("/v1/chat/completions", json={"messages": messages})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b'{"prompt": "\xc3\x28"}',
        b"[" * 100_000,
    ],
)
async def test_a_body_that_is_no_json_object(front: Front, raw: bytes) -> None:
    answer = await front.client.post("/v1/completions", content=raw)
    assert answer.status_code == 400
    assert "body" in answer.json()["error"]["message"]


async def test_an_integer_without_measure_names_its_field(front: Front) -> None:
    for name in ("max_tokens", "temperature", "seed"):
        for digits in (4000, 5000):
            raw = f'{{"prompt": "x", "{name}": {"9" * digits}}}'
            answer = await front.client.post("/v1/completions", content=raw)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)
            assert len(answer.content) < 300


async def test_ten_megabytes_are_refused_whether_announced_or_not(front: Front) -> None:
    body = b'{"prompt": "' + b"x" * 10_000_000 + b'"}'

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100_000):
            yield body[start : start + 100_000]

    for content in (body, chunks()):
        answer = await front.client.post("/v1/completions", content=content)
        assert answer.status_code == 413
        assert "bytes" in answer.json()["error"]["message"]


async def test_a_body_beyond_all_measure_is_refused_by_its_header(front: Front) -> None:
    host, port = front.http.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
    writer.write(head.encode())
    assert b"413" in await reader.readline()
    writer.close()


async def test_unknown_paths_and_methods_answer_in_the_same_shape(front: Front) -> None:
    missing = await front.client.get("/v1/nothing")
    wrong = await front.client.get("/v1/completions")
    assert (missing.status_code, wrong.status_code) == (404, 405)
    assert missing.json()["error"]["message"]
    assert wrong.json()["error"]["message"]
