"""OpenAI's own client, unmodified, against the real model over a real socket."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving.openai_parts import bundled_folder, serve_model

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.slow

CHAT: Any = [{"role": "user", "content": "Name three colours."}]
MODEL = "smollm2"


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest) -> Iterator[Any]:
    with serve_model(bundled_folder(request)) as running:
        yield running


@pytest.fixture(scope="module")
def client(served: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"http://{served[0]}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def greedy(client: openai.OpenAI) -> Any:
    """A chat that the others are held against."""
    return client.chat.completions.create(
        model=MODEL, messages=CHAT, temperature=0, max_tokens=12, logprobs=True, top_logprobs=2
    )


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [client.models.retrieve(MODEL).id]


def test_a_chat(greedy: Any) -> None:
    (choice,) = greedy.choices
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    usage = greedy.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens == len(choice.logprobs.content)


def test_log_probabilities_of_a_greedy_chat_are_the_highest(greedy: Any) -> None:
    (choice,) = greedy.choices
    for entry in choice.logprobs.content:
        first, second = entry.top_logprobs
        assert (entry.token, entry.logprob) == (first.token, first.logprob)
        assert second.logprob <= first.logprob <= 0
        assert bytes(entry.bytes).decode("utf-8", "replace") == entry.token
    said = b"".join(bytes(entry.bytes) for entry in choice.logprobs.content)
    assert said.decode().removesuffix("<|im_end|>") == choice.message.content


def test_a_streamed_chat_is_the_same(client: openai.OpenAI, greedy: Any) -> None:
    chunks = list(
        client.chat.completions.create(
            model=MODEL, messages=CHAT, temperature=0, max_tokens=12, stream=True, logprobs=True,
            top_logprobs=2, stream_options={"include_usage": True},
        )
    )  # fmt: skip
    pieces = [chunk.choices[0] for chunk in chunks if chunk.choices]
    text = "".join(piece.delta.content or "" for piece in pieces)
    entries = [e for piece in pieces if piece.logprobs for e in piece.logprobs.content]
    assert text == greedy.choices[0].message.content
    assert entries == greedy.choices[0].logprobs.content
    assert pieces[-1].finish_reason == greedy.choices[0].finish_reason
    assert chunks[-1].usage.completion_tokens == greedy.usage.completion_tokens
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_the_clients_own_way_of_streaming(client: openai.OpenAI, greedy: Any) -> None:
    """It takes an answer that a limit ended for an error."""
    content = greedy.choices[0].message.content
    with client.chat.completions.stream(
        model=MODEL, messages=CHAT, temperature=0, stop=content[5:9]
    ) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == content[: content.index(content[5:9])]


def test_several_choices_differ_and_repeat_with_their_seed(client: openai.OpenAI) -> None:
    def ask(n: int, **more: Any) -> Any:
        return client.chat.completions.create(
            model=MODEL, messages=CHAT, n=n, seed=5, temperature=1.5, max_tokens=8, **more
        )

    three = ask(3)
    texts = [choice.message.content for choice in three.choices]
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    assert len(set(texts)) == 3
    assert ask(1).choices[0].message.content == texts[0]
    assert three.usage.prompt_tokens == ask(1).usage.prompt_tokens
    assert three.usage.completion_tokens <= 24
    streamed = ["", "", ""]
    for chunk in ask(3, stream=True):
        for piece in chunk.choices:
            streamed[piece.index] += piece.delta.content or ""
    assert streamed == texts


def test_a_stop_text_is_cut_off_and_named(client: openai.OpenAI, greedy: Any) -> None:
    content = greedy.choices[0].message.content
    stop = content[3:6]
    for stream in (False, True):
        answer = client.chat.completions.create(
            model=MODEL, messages=CHAT, temperature=0, max_tokens=12, stop=[stop, "zzz"],
            stream=stream,
        )  # fmt: skip
        if stream:
            pieces = [chunk.choices[0] for chunk in answer]
            text = "".join(piece.delta.content or "" for piece in pieces)
            last = pieces[-1]
        else:
            last = answer.choices[0]
            text = last.message.content
        assert text == content[: content.index(stop)]
        assert last.finish_reason == "stop"
        assert last.stop_reason == stop


def test_completions_of_texts_and_tokens(client: openai.OpenAI) -> None:
    prompts: Any = ["The sea is", "Once upon a time"]
    answer = client.completions.create(
        model=MODEL, prompt=prompts, n=2, temperature=0, max_tokens=4
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    first, twin, other, _ = (choice.text for choice in answer.choices)
    assert first == twin != other
    scored = client.completions.create(
        model=MODEL, prompt=prompts[0], temperature=0, max_tokens=4, logprobs=3
    )
    logprobs = scored.choices[0].logprobs
    assert "".join(logprobs.tokens) == first
    assert all(3 <= len(top) <= 4 for top in logprobs.top_logprobs)
    assert logprobs.text_offset[0] == 0
    pairs = zip(logprobs.text_offset, logprobs.tokens, strict=True)
    assert all(first[at:].startswith(token) for at, token in pairs)


def test_the_best_of_several(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "prompt": "The sea is", "seed": 3, "max_tokens": 5}
    all_four = client.completions.create(n=4, logprobs=0, **asked)
    means = [sum(c.logprobs.token_logprobs) / len(c.logprobs.tokens) for c in all_four.choices]
    best = client.completions.create(n=1, best_of=4, **asked)
    assert best.choices[0].text == all_four.choices[means.index(max(means))].text
    assert best.usage.completion_tokens == all_four.usage.completion_tokens


def test_an_echo_repeats_the_prompt(client: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "prompt": "The sea is", "temperature": 0}
    plain = client.completions.create(max_tokens=3, **asked)
    echoed = client.completions.create(max_tokens=3, echo=True, **asked)
    assert echoed.choices[0].text == "The sea is" + plain.choices[0].text
    nothing = client.completions.create(max_tokens=0, echo=True, **asked)
    assert nothing.choices[0].text == "The sea is"
    assert nothing.usage.completion_tokens == 0


def test_an_echo_tells_how_likely_the_prompt_was(client: openai.OpenAI) -> None:
    """As evaluation harnesses ask: the prompt's own log probabilities, whoever asked before."""
    asked: Any = {"model": MODEL, "prompt": "The sea is blue. " * 20, "temperature": 0}
    client.completions.create(max_tokens=1, **asked)  # the prefix cache knows it now
    answers = [
        client.completions.create(max_tokens=tokens, echo=True, logprobs=2, n=n, **asked)
        for tokens, n in ((0, 1), (3, 2))
    ]
    told = answers[0].choices[0].logprobs
    assert "".join(told.tokens) == asked["prompt"] == answers[0].choices[0].text
    assert told.token_logprobs[0] is told.top_logprobs[0] is None
    assert all(-30 < logprob <= 0 for logprob in told.token_logprobs[1:])
    # The sentence becomes likely when it was read before.
    assert sum(told.token_logprobs[-10:]) > sum(told.token_logprobs[1:11])
    assert len(told.tokens) == answers[0].usage.prompt_tokens
    for choice in answers[1].choices:
        length = len(told.tokens)
        assert choice.logprobs.token_logprobs[1:length] == told.token_logprobs[1:]
        assert len(choice.logprobs.tokens) == length + 3
        offset = choice.logprobs.text_offset[length]
        assert choice.text[offset:] == "".join(choice.logprobs.tokens[length:])


def test_sampling_as_asked(client: openai.OpenAI, greedy: Any) -> None:
    def ask(**more: Any) -> Any:
        return client.chat.completions.create(
            model=MODEL, messages=CHAT, max_tokens=12, temperature=0, **more
        )

    banned = greedy.choices[0].logprobs.content[0]
    first = ask(logprobs=True, top_logprobs=20, logit_bias={"28": 100}).choices[0]
    assert (
        {entry.token for entry in first.logprobs.content}
        == {first.logprobs.content[0].token}
        != {banned.token}
    )
    assert all(math.isfinite(entry.logprob) for entry in first.logprobs.content)
    # vLLM's extras, as its users send them.
    long = ask(extra_body={"min_tokens": 12, "ignore_eos": True, "top_k": -1, "min_p": 0.1})
    assert long.usage.completion_tokens == 12


def test_errors_are_the_clients_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=MODEL, messages=CHAT, temperature=-1)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as tools:
        client.chat.completions.create(
            model=MODEL, messages=CHAT,
            tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
        )  # fmt: skip
    assert tools.value.param == "tools"
    with pytest.raises(openai.BadRequestError) as beyond:
        client.completions.create(model=MODEL, prompt=[1], logit_bias={"900000": 1})
    assert beyond.value.param == "logit_bias"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model=MODEL, prompt="x " * 5000)
    assert long.value.param == "prompt"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-9", messages=CHAT)


def test_choices_share_their_prompt(served: Any, client: openai.OpenAI) -> None:
    def found() -> int:
        hits: int = served[1].snapshot().scheduler.memory.prefix_hit_tokens
        return hits

    before = found()
    prompt = "A prompt that nobody sent before, long enough for some blocks of tokens. " * 4
    answer = client.completions.create(model=MODEL, prompt=prompt, n=3, max_tokens=2)
    blocks = (answer.usage.prompt_tokens - 1) // 16
    assert found() - before == 2 * 16 * blocks > 0


def test_a_full_queue_is_the_clients_rate_limit(client: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as full:
        client.completions.create(
            model=MODEL, prompt=["a"] * 120, max_tokens=30, extra_body={"ignore_eos": True}
        )
    assert int(full.value.response.headers["retry-after"]) >= 1
    assert client.completions.create(model=MODEL, prompt="a", max_tokens=1).choices
