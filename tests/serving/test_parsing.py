"""Whatever bytes come in, the parsers answer or name what is wrong; nothing else is raised."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from serving import jsonbody, openai_schema
from serving.errors import Kind, RequestError, http_headers, named_field, openai_body
from serving.limits import Limits
from serving.wire import invalid_utf8
from shortfirst.generate.v1 import generate_pb2
from shortfirst.rank.v1 import rank_pb2

LIMITS = Limits()

names = st.sampled_from(
    ["prompt", "messages", "max_tokens", "temperature", "top_p", "top_k", "seed", "stream", "stop",
     "stream_options", "ignore_eos", "user", "model", "n", "role", "content", "type", "text"]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=8,
)


def refusal(work: Callable[[], object]) -> RequestError | None:
    try:
        work()
    except RequestError as error:
        return error
    return None


@given(st.binary(max_size=200))
def test_any_body_is_an_object_or_invalid(body: bytes) -> None:
    error = refusal(lambda: jsonbody.parse(body))
    assert error is None or error.kind is Kind.INVALID


@given(st.dictionaries(names | st.text(max_size=6), values, max_size=8))
def test_any_object_is_a_call_or_names_its_field(body: dict[str, Any]) -> None:
    for parse in (openai_schema.completion, openai_schema.chat):
        error = refusal(partial(parse, body, LIMITS))
        if error is not None:
            assert error.kind is Kind.INVALID
            assert error.field
            json.dumps(openai_body(error)).encode()


@given(st.binary(max_size=120))
def test_any_bytes_are_a_message_or_a_path(data: bytes) -> None:
    for kind in (rank_pb2.RankRequest, rank_pb2.ReportOutcomesRequest,
                 generate_pb2.GenerateRequest):  # fmt: skip
        path = invalid_utf8(kind.DESCRIPTOR, data)
        try:
            kind.FromString(data)
        except DecodeError:
            continue
        assert path == ""


@given(
    st.lists(st.text(max_size=5), min_size=1, max_size=5),
    st.integers(0, 4),
    st.sampled_from([b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf8"]),
)
def test_the_broken_prompt_is_found(prompts: list[str], which: int, junk: bytes) -> None:
    which %= len(prompts)
    marker = "\x00marker\x00"
    items = [
        rank_pb2.RankItem(id=str(i), prompt=marker if i == which else p)
        for i, p in enumerate(prompts)
    ]
    data = rank_pb2.RankRequest(served_model="m", items=items).SerializeToString()
    broken = data.replace(marker.encode(), junk + b"x" * (len(marker) - len(junk)))
    with pytest.raises(DecodeError):
        rank_pb2.RankRequest.FromString(broken)
    assert invalid_utf8(rank_pb2.RankRequest.DESCRIPTOR, broken) == f"items[{which}].prompt"


def test_errors_say_when_to_come_back() -> None:
    assert http_headers(RequestError(Kind.BUSY, "full", retry_after_s=0.1)) == {"retry-after": "1"}
    assert http_headers(RequestError(Kind.INVALID, "bad")) == {}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("top_p must lie in (0, 1]", "top_p"),
        ("sampling.top_p must lie in (0, 1]", "top_p"),
        ("top_p: must lie in (0, 1]", "top_p"),
        ("something else about top_p", ""),
        ("", ""),
    ],
)
def test_the_field_of_a_configuration_error(message: str, field: str) -> None:
    assert named_field(ValueError(message), ("top_p", "top_k")) == field


def test_limits_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="max_items"):
        Limits(max_items=0)
