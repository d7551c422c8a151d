"""Several prompts and choices in one call: their order, their counts, and their end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.serving.engine_parts import Front, WordBackend, serve_front

TEXT = {"prompt": "one two", "max_tokens": 3}
CHAT = {"messages": [{"role": "user", "content": "one two"}], "max_tokens": 3}


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async with serve_front() as running:
        yield running


async def ask(front: Front, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await front.client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def stream(front: Front, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with front.client.stream("POST", f"/v1/{path}", json={**body, "stream": True}) as got:
        lines = [line.removeprefix("data: ") async for line in got.aiter_lines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [(["one two", "three"], 3), ([[1, 2], [3]], 3), ([1, 2, 3], 3), ("one two", 2), (["x"], 1)],
)
async def test_each_prompt_has_its_choices_in_order(front: Front, prompt: Any, tokens: int) -> None:
    answer = await ask(front, "completions", {"prompt": prompt, "n": 2, "max_tokens": 3})
    prompts = len(prompt) if isinstance(prompt, list) and not isinstance(prompt[0], int) else 1
    assert [choice["index"] for choice in answer["choices"]] == list(range(2 * prompts))
    assert answer["usage"]["prompt_tokens"] == tokens  # each prompt once
    assert answer["usage"]["completion_tokens"] == 2 * prompts * 3
    assert len(front.backend.submitted) == 2 * prompts


async def test_choices_have_seeds_of_their_own_and_the_first_the_callers(front: Front) -> None:
    await ask(front, "chat/completions", {**CHAT, "n": 3, "seed": 7})
    await ask(front, "chat/completions", {**CHAT, "n": 2, "seed": 7})
    await ask(front, "chat/completions", {**CHAT, "n": 2})
    seeds = [sampling.seed for sampling, _, _ in front.backend.submitted.values()]
    assert seeds[0] == seeds[3] == 7
    assert seeds[1] == seeds[4]
    assert len(set(seeds[:3])) == 3
    assert seeds[5:] == [None, None]


async def test_choices_follow_when_the_first_has_computed_the_prompt() -> None:
    """Then its blocks are in the prefix cache."""
    backend = WordBackend()
    entered: list[int] = []
    plain = backend.submit

    async def watched(*args: Any) -> Any:
        events = await plain(*args)
        entered.append(len(backend.running))
        return events

    backend.submit = watched  # type: ignore[method-assign]
    async with serve_front(backend) as front:
        chunks = await stream(front, "completions", {**TEXT, "n": 3})
    assert entered == [1, 2, 3]
    texts = ["", "", ""]
    for chunk in chunks:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == ["w0 w1 w2 "] * 3
    ends = [c["finish_reason"] for chunk in chunks for c in chunk["choices"]]
    assert ends.count("stop") == 3


async def test_streamed_choices_interleave_and_each_begins_with_its_role(front: Front) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = await stream(front, "chat/completions", {**CHAT, "n": 2, "stream_options": options})
    firsts = {}
    for chunk in chunks[:-1]:
        (choice,) = chunk["choices"]
        firsts.setdefault(choice["index"], choice["delta"])
    assert firsts == {i: {"role": "assistant", "content": ""} for i in (0, 1)}
    running = [c["usage"]["completion_tokens"] for c in chunks if c["choices"][:1]
               and c["choices"][0]["index"] == 1]  # fmt: skip
    assert running == [0, 1, 2, 3, 3]
    assert chunks[-1]["usage"]["completion_tokens"] == 6


async def test_usage_is_null_until_it_is_told(front: Front) -> None:
    chunks = await stream(front, "completions", {**TEXT, "stream_options": {"include_usage": True}})
    assert [chunk["usage"] is None for chunk in chunks] == [True] * 4 + [False]


async def test_one_refusal_leaves_none_behind() -> None:
    async with serve_front(WordBackend(max_running=2, held=asyncio.Event())) as front:
        body = {"prompt": ["a", "b", "c"], "max_tokens": 3}
        answer = await front.client.post("/v1/completions", json=body)
        assert answer.status_code == 429
        several = await front.client.post("/v1/completions", json={**TEXT, "n": 3})
        assert several.status_code == 429
        assert front.backend.running == {}
        assert len(front.backend.aborted) == 4


@pytest.mark.parametrize("streams", [True, False])
async def test_a_client_that_hangs_up_frees_all_choices(streams: bool) -> None:
    async with serve_front(WordBackend(held=asyncio.Event())) as front:
        body = {"prompt": ["a", "b"], "n": 2, "stream": streams}
        asking = asyncio.ensure_future(front.client.post("/v1/completions", json=body))
        await front.until_running(4)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await front.until_running(0)
        assert len(front.backend.aborted) == 4


async def test_a_choice_that_fails_fails_the_call() -> None:
    async with serve_front(WordBackend(broken_after=1)) as front:
        answer = await front.client.post("/v1/completions", json={**TEXT, "n": 2})
        assert answer.status_code == 500
        chunks = await stream(front, "completions", {**TEXT, "n": 2})
        assert chunks[-1]["error"]["type"] == "server_error"
        assert front.backend.running == {}


async def test_the_best_is_the_one_of_the_highest_mean(front: Front) -> None:
    """Odd seeds are likelier here; that of the caller is even."""
    body = {**TEXT, "best_of": 8, "seed": 4, "logprobs": 0}
    (choice,) = (await ask(front, "completions", body))["choices"]
    seeds = [sampling.seed for sampling, _, _ in front.backend.submitted.values()]
    assert any(seed % 2 for seed in seeds)  # type: ignore[operator]
    assert choice["index"] == 0
    assert choice["logprobs"]["token_logprobs"] == [-0.5] * 3
    plain = await ask(front, "completions", {**TEXT, "best_of": 2, "seed": 4})
    assert plain["choices"][0]["logprobs"] is None
    assert plain["usage"]["completion_tokens"] == 6


async def test_log_probabilities_of_a_text(front: Front) -> None:
    (choice,) = (await ask(front, "completions", {**TEXT, "logprobs": 2}))["choices"]
    assert choice["logprobs"] == {
        "tokens": ["w0 ", "w1 ", "w2 "],
        "token_logprobs": [-1.5, -1.5, -1.5],
        "top_logprobs": [{"w9 ": -1.0, "w8 ": -2.0, f"w{i} ": -1.5} for i in range(3)],
        "text_offset": [0, 3, 6],
    }
    chunks = await stream(front, "completions", {**TEXT, "logprobs": 0})
    pieces = [c["choices"][0]["logprobs"] for c in chunks]
    assert [p["text_offset"] for p in pieces if p] == [[0], [3], [6]]
    assert pieces[0]["top_logprobs"] is None


async def test_log_probabilities_of_a_chat(front: Front) -> None:
    body = {**CHAT, "logprobs": True, "top_logprobs": 1}
    (choice,) = (await ask(front, "chat/completions", body))["choices"]
    first, *_ = choice["logprobs"]["content"]
    top = [{"token": "w9 ", "logprob": -1.0, "bytes": list(b"w9 ")}]
    assert first == {"token": "w0 ", "logprob": -1.5, "bytes": list(b"w0 "), "top_logprobs": top}
    (plain,) = (await ask(front, "chat/completions", CHAT))["choices"]
    assert plain["logprobs"] is None


async def test_an_echo(front: Front) -> None:
    body = {**TEXT, "echo": True, "logprobs": 1, "n": 2}
    answer = await ask(front, "completions", body)
    for choice in answer["choices"]:
        assert choice["text"] == "one twow0 w1 w2 "
        assert choice["logprobs"]["token_logprobs"] == [None, -2.0, -1.5, -1.5, -1.5]
        assert choice["logprobs"]["top_logprobs"][:2] == [None, {"w7 ": -2.0}]
    (silent,) = (await ask(front, "completions", {**body, "max_tokens": 0, "n": 1}))["choices"]
    assert silent["text"] == "one two"
    assert silent["logprobs"]["token_logprobs"] == [None, -2.0]
    (tokens,) = (await ask(front, "completions", {"prompt": [4, 5], "echo": True}))["choices"]
    assert tokens["text"] == "t4 t5 w0 w1 w2 "


async def test_fields_that_clients_send_by_habit(front: Front) -> None:
    habits = {
        "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "store": False,
        "metadata": {"a": "b"}, "parallel_tool_calls": True, "logit_bias": {}, "stop": None,
        "stop_token_ids": [], "top_k": -1, "service_tier": "auto", "n": 1, "safety_identifier": "x",
        "use_beam_search": False, "skip_special_tokens": True, "top_logprobs": 0,
    }  # fmt: skip
    await ask(front, "chat/completions", {**CHAT, **habits})
    await ask(front, "completions", {**TEXT, "echo": False, "best_of": 1, "suffix": None})
    ((sampling, *_), *_) = front.backend.submitted.values()
    assert (sampling.stop, sampling.top_k, sampling.logprobs) == ((), 0, None)


async def test_what_the_sampler_is_told(front: Front) -> None:
    body = {
        **TEXT, "stop": "x", "stop_token_ids": [5], "logit_bias": {"7": -3.5}, "min_tokens": 1,
        "presence_penalty": 0.5, "frequency_penalty": -0.5, "min_p": 0.1, "logprobs": 3,
        "include_stop_str_in_output": True, "skip_special_tokens": False,
    }  # fmt: skip
    await ask(front, "completions", body)
    ((sampling, *_),) = front.backend.submitted.values()
    assert (sampling.stop, sampling.stop_token_ids) == (("x",), (5,))
    assert (sampling.logit_bias, sampling.min_tokens) == (((7, -3.5),), 1)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.5, -0.5)
    assert (sampling.min_p, sampling.logprobs) == (0.1, 3)
    assert (sampling.include_stop_str_in_output, sampling.skip_special_tokens) == (True, False)


async def test_a_least_length_beyond_the_context_window_is_named(front: Front) -> None:
    answer = await front.client.post(
        "/v1/chat/completions", json={"messages": CHAT["messages"], "min_tokens": 62}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "min_tokens"


async def test_the_chat_template_takes_arguments(front: Front) -> None:
    await ask(
        front, "chat/completions", {**CHAT, "chat_template_kwargs": {"enable_thinking": True}}
    )
    assert front.backend.template == {"enable_thinking": True}
    await ask(front, "chat/completions", {**CHAT, "add_generation_prompt": False})
    assert front.backend.template == {"add_generation_prompt": False}
    for bad in ({"chat_template_kwargs": {"tokenize": True}}, {"continue_final_message": True}):
        answer: httpx.Response = await front.client.post(
            "/v1/chat/completions", json={**CHAT, **bad}
        )
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] in bad
