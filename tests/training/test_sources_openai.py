from __future__ import annotations

import json

import pytest

from ranker.types import FinishReason
from training.sources import EVERY_MODEL
from training.sources.openai_log import read_openai_log
from training.split import bucket, split_of


def user(*texts: str) -> list[dict]:
    """A chat: what the user said, with answers in between."""
    said = []
    for text in texts:
        said += [{"role": "user", "content": text}, {"role": "assistant", "content": "an answer"}]
    return [{"role": "system", "content": "be kind"}, *said[:-1]]


def answer(tokens: int = 7, reason: str | None = "stop", **more) -> dict:
    return {
        "id": "chatcmpl-1",
        "model": "m-2024",
        "choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": reason}],
        "usage": {"prompt_tokens": 11, "completion_tokens": tokens},
        **more,
    }


def log(path, *rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def asked(text: str, n: int = 0) -> str:
    """``text`` and a number with which it is not reserved."""
    found = (f"{text} {i}" for i in range(200))
    return [t for t in found if split_of(bucket(t)) != "reserved"][n]


def test_chat_and_completions(tmp_path):
    rows = [
        {"request_id": "a", "request": {"model": "m", "messages": user(asked("chat"))},
         "response": answer(7)},
        {"request_id": "b", "request": {"model": "m", "prompt": asked("text"), "max_tokens": 9},
         "response": answer(9, "length")},
    ]  # fmt: skip
    chat, text = read_openai_log(log(tmp_path / "log é.jsonl", *rows)).examples
    assert (chat.prompt, chat.output_tokens, chat.id) == (asked("chat"), 7, "a")
    assert (chat.finish_reason, chat.model, chat.prompt_tokens) == (FinishReason.STOP, "m", 11)
    assert chat.split == split_of(bucket(asked("chat")))
    assert (text.prompt, text.finish_reason) == (asked("text"), FinishReason.LENGTH)


def test_what_the_user_said_last_is_the_prompt_and_what_came_first_decides_the_split(tmp_path):
    rows = [
        {"request": {"messages": user(*(asked("turn", n) for n in range(turns)))},
         "response": answer(turns)}
        for turns in (1, 2, 3)
    ]  # fmt: skip
    found = read_openai_log(log(tmp_path / "a.jsonl", *rows)).examples
    assert [e.prompt for e in found] == [asked("turn", n) for n in range(3)]
    assert {e.split for e in found} == {split_of(bucket(asked("turn", 0)))}
    assert len({e.conversation for e in found}) == 1
    assert asked("turn", 0) not in found[0].conversation


def test_parts_of_a_message_that_are_text(tmp_path):
    parts = [
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "text", "text": asked("look")},
    ]
    row = {"request": {"messages": [{"role": "user", "content": parts}]}, "response": answer()}
    (found,) = read_openai_log(log(tmp_path / "a.jsonl", row)).examples
    assert found.prompt == asked("look")


def choices(*reasons: str, **each) -> dict:
    made = [
        {"index": i, "text": "x", "finish_reason": reason, **{k: v[i] for k, v in each.items()}}
        for i, reason in enumerate(reasons)
    ]
    return answer(choices=made)


def test_several_choices_count_where_each_brings_its_tokens(tmp_path):
    request = {"prompt": asked("draws"), "n": 2}
    listed = choices("stop", "length", logprobs=[{"tokens": ["a"] * 3}, {"tokens": ["a"] * 5}])
    ids = choices("stop", "stop", token_ids=[[1, 2], [1]])
    rows = [{"request": request, "response": r, "id": i} for i, r in enumerate((listed, ids), 1)]
    rows.append({"request": request, "response": choices("stop", "stop")})
    data = read_openai_log(log(tmp_path / "a.jsonl", *rows))
    assert [(e.id, e.output_tokens, e.finish_reason.censored) for e in data.examples] == [
        ("1/0", 3, False),
        ("1/1", 5, True),
        ("2/0", 2, False),
        ("2/1", 1, False),
    ]
    assert data.skipped == {"several choices share one usage": 1}


def test_choices_of_several_prompts_go_to_their_prompts(tmp_path):
    request = {"prompt": [asked("one"), asked("two")]}
    response = choices("stop", "stop", token_ids=[[1], [1, 2]])
    data = read_openai_log(log(tmp_path / "a.jsonl", {"request": request, "response": response}))
    assert [(e.prompt, e.output_tokens) for e in data.examples] == [
        (asked("one"), 1),
        (asked("two"), 2),
    ]


def test_rows_without_a_length_are_counted_by_reason(tmp_path):
    chat = {"messages": user(asked("chat"))}
    rows = [
        {"request": chat, "response": {"error": {"code": 500}}},
        {"request": chat, "response": None},
        {"request": chat, "response": {**answer(), "usage": None}},
        {"request": chat, "response": answer(reason=None)},
        {"request": {"messages": user(" ")}, "response": answer()},
        {"request": {"messages": "hello"}, "response": answer()},
        {"request": {"prompt": [1, 2, 3]}, "response": answer()},
        {"request": {"prompt": "\n"}, "response": answer()},
        {"request": {"prompt": "x", "best_of": 3}, "response": answer()},
        {"request": chat, "response": {**answer(), "choices": []}},
        {"request": chat, "response": answer(5)},
        {"request": chat, "response": answer(6, "content_filter")},
        {"request": chat, "response": answer(7, "tool_calls")},
    ]
    data = read_openai_log(log(tmp_path / "a.jsonl", *rows))
    assert data.skipped == {
        "an error in place of an answer": 2,
        "no usage.completion_tokens": 1,
        "no known finish_reason": 1,
        "no text in the messages": 2,
        "a prompt that is not text": 1,
        "a prompt of blanks": 1,
        "usage counts answers that best_of threw away": 1,
        "no choices": 1,
    }
    assert [(e.output_tokens, e.finish_reason) for e in data.examples] == [
        (5, FinishReason.STOP),
        (6, FinishReason.ABORT),
        (7, FinishReason.STOP),
    ]
    with pytest.raises(ValueError, match=r"no rows.*; 2: an error in place of an answer"):
        read_openai_log(log(tmp_path / "b.jsonl", *rows[:2]))


def test_a_line_that_was_logged_twice_counts_once(tmp_path):
    row = {"request_id": "a", "request": {"prompt": asked("x")}, "response": answer(5)}
    again = {**row, "response": answer(6)}
    data = read_openai_log(log(tmp_path / "a.jsonl", row, row, again))
    assert [e.output_tokens for e in data.examples] == [5, 6]
    assert data.skipped == {"logged twice": 1}


def test_a_line_without_an_id_counts_once_unless_anything_in_it_differs(tmp_path):
    def line(**more) -> dict:
        response = {k: v for k, v in answer(5).items() if k != "id"}
        return {"request": {"prompt": asked("x")}, "response": {**response, **more}}

    later, drawn = line(created=1_700_000_000), line(choices=choices("stop", "stop")["choices"])
    for choice in drawn["response"]["choices"]:
        choice["token_ids"] = [1, 2]
    rows = [line(), later, drawn, dict(reversed(line().items())), later, drawn]
    data = read_openai_log(log(tmp_path / "a.jsonl", *rows))
    assert [(e.id, e.output_tokens) for e in data.examples] == [
        ("row-1", 5), ("row-2", 5), ("row-3/0", 2), ("row-3/1", 2),
    ]  # fmt: skip
    ((reason, count),) = data.skipped.items()
    assert count == 3
    assert "request_id" in reason


def batch(tmp_path, *tokens):
    """Input and output of a batch of chats, the output in another order."""
    names = [f"request-{i}" for i in range(len(tokens))]
    asks = [
        {"custom_id": n, "method": "POST", "url": "/v1/chat/completions",
         "body": {"model": "m", "messages": user(asked("batch", i))}}
        for i, n in enumerate(names)
    ]  # fmt: skip
    answers = [
        {"id": f"batch_req_{n}", "custom_id": n, "error": None,
         "response": {"status_code": 200, "request_id": "r", "body": answer(t)}}
        for n, t in zip(names, tokens, strict=True)
    ]  # fmt: skip
    return log(tmp_path / "in.jsonl", *asks), answers[::-1]


def test_a_batch_is_joined_with_its_input(tmp_path):
    requests, answers = batch(tmp_path, 3, 4)
    failed = {"custom_id": "request-0", "response": None, "error": {"code": "batch_expired"}}
    lost = {**answers[0], "custom_id": "nobody"}
    path = log(tmp_path / "out.jsonl", *answers, failed, lost)
    data = read_openai_log(path, requests=requests)
    assert [(e.prompt, e.output_tokens, e.id) for e in data.examples] == [
        (asked("batch", 1), 4, "request-1"),
        (asked("batch", 0), 3, "request-0"),
    ]
    assert data.skipped == {
        "an error in place of an answer": 1,
        "no request with this custom_id": 1,
    }
    with pytest.raises(ValueError, match=r"out.jsonl: row 1: column custom_id: .*input file"):
        read_openai_log(path)
    twice = log(tmp_path / "twice.jsonl", *[json.loads(requests.read_text().split("\n")[0])] * 2)
    with pytest.raises(ValueError, match=r"row 2: column custom_id repeats that of .*row 1"):
        read_openai_log(path, requests=twice)
    with pytest.raises(ValueError, match="row 1: column custom_id or body is missing"):
        read_openai_log(path, requests=log(tmp_path / "x.jsonl", {"custom_id": "a"}))


def test_models_go_by_the_name_that_was_asked_for_or_that_answered(tmp_path):
    rows = [
        {"request": {"model": m, "prompt": asked(m)}, "response": {**answer(), "model": f"{m}-1"}}
        for m in ("m", "n")
    ]
    path = log(tmp_path / "a.jsonl", *rows)
    assert [e.model for e in read_openai_log(path, "m").examples] == ["m"]
    assert [e.model for e in read_openai_log(path, "n-1").examples] == ["n-1"]
    assert [e.model for e in read_openai_log(path, EVERY_MODEL).examples] == ["m", "n"]
    with pytest.raises(ValueError, match=r"2 models .*--served-model"):
        read_openai_log(path)


def test_damaged_lines_are_named_without_their_text(tmp_path):
    good = json.dumps({"request": {"prompt": asked("x")}, "response": answer()})
    for bad, message in (
        ('{"request": "secret', "row 2: not readable as JSON"),
        ('["secret"]', "row 2: must be a JSON object"),
        ('{"prompt": "secret"}', "row 2: column request is missing"),
    ):
        (tmp_path / "a.jsonl").write_text(f"{good}\n{bad}\n")
        with pytest.raises(ValueError, match=message) as caught:
            read_openai_log(tmp_path / "a.jsonl")
        assert "secret" not in str(caught.value)
