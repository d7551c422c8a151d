"""Invented text in the layouts of the data sets that the reader knows."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ranker.types import FinishReason
from training.sources import EVERY_MODEL
from training.sources.hub import read_hub
from training.split import bucket, conversation_bucket, split_of


def kept(prefix: str, key=bucket) -> list[str]:
    """Names and texts whose bucket is not reserved."""
    return [t for t in (f"{prefix}{i}" for i in range(40)) if split_of(key(t)) != "reserved"]


def said(*texts: str, system: bool = False, **more) -> list[dict]:
    roles = ("user", "assistant")
    turns = [{"role": roles[i % 2], "content": t, **more} for i, t in enumerate(texts)]
    return [{"role": "system", "content": "be kind", **more}, *turns] if system else turns


def parquet(folder, rows, name="data/train-00000-of-00001.parquet"):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / name)
    return str(folder)


def lines(folder, rows, name="part.jsonl"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(json.dumps(row) for row in rows))
    return str(folder)


@pytest.fixture
def lmsys(tmp_path):
    names = kept("talk")
    moderation = [
        {"categories": {"hate": False}, "category_scores": {"hate": 0.1}, "flagged": False}
    ]
    rows = [
        {"conversation_id": names[0], "model": "vicuna-13b", "turn": 2, "language": "English",
         "conversation": said("one two", "a b c", "and then", "d"), "redacted": False,
         "openai_moderation": moderation},
        {"conversation_id": names[1], "model": "koala-13b", "turn": 1, "language": "French",
         "conversation": said("bonjour", "e f"), "redacted": False,
         "openai_moderation": moderation},
        {"conversation_id": names[2], "model": "koala-13b", "turn": 1, "language": "French",
         "conversation": said(" ", "e f"), "redacted": False, "openai_moderation": moderation},
        {"conversation_id": names[3], "model": "koala-13b", "turn": 1, "language": "French",
         "conversation": said("salut", ""), "redacted": False, "openai_moderation": moderation},
    ]  # fmt: skip
    return parquet(tmp_path / "lmsys é", rows), names


def facts(data):
    return [(e.prompt, e.prompt_tokens, e.output_tokens, e.model) for e in data.examples]


def test_lmsys(lmsys, tokenizer):
    folder, names = lmsys
    data = read_hub(folder, tokenizer, EVERY_MODEL)
    assert facts(data) == [("one two", 2, 3, "vicuna-13b"), ("bonjour", 1, 2, "koala-13b")]
    assert [e.conversation for e in data.examples] == names[:2]
    assert [e.split for e in data.examples] == [split_of(bucket(n)) for n in names[:2]]
    assert data.skipped == {"a question of blanks": 1, "an empty answer": 1}
    assert facts(read_hub(folder, tokenizer, "koala-13b")) == facts(data)[1:]
    with pytest.raises(ValueError, match="2 models"):
        read_hub(folder, tokenizer)


def test_later_turns_stay_with_their_conversation(lmsys, tokenizer):
    data = read_hub(lmsys[0], tokenizer, "vicuna-13b", later=True)
    assert [(e.prompt, e.output_tokens) for e in data.examples] == [("one two", 3), ("and then", 1)]
    assert len({(e.conversation, e.split) for e in data.examples}) == 1
    assert len({e.id for e in data.examples}) == 2


def test_wildchat(tmp_path, tokenizer):
    name = kept("hash")[0]
    more = {"country": "France", "hashed_ip": "x", "language": "French", "redacted": False,
            "toxic": False, "turn_identifier": 7, "timestamp": datetime(2024, 5, 1, tzinfo=UTC),
            "header": {"accept-language": "fr", "user-agent": "x"}}  # fmt: skip
    row = {"conversation_hash": name, "model": "gpt-4-0314", "timestamp": more["timestamp"],
           "conversation": said("bonjour à tous", "a b", **more), "turn": 1, "language": "French",
           "toxic": False, "redacted": False, "state": None, "country": "France"}  # fmt: skip
    data = read_hub(parquet(tmp_path / "WildChat", [row, row]), tokenizer)
    assert facts(data) == [("bonjour à tous", 3, 2, "gpt-4-0314")]
    assert data.skipped == {"logged twice": 1}  # the hash is of what was said


def test_sharegpt_counts_parts_as_one_conversation(tmp_path, tokenizer):
    name = kept("id", conversation_bucket)[0]
    talk = [{"from": "human", "value": "one"}, {"from": "gpt", "value": "a b"}]
    rows = [{"id": f"{name}_0", "conversations": [{"from": "system", "value": "x"}, *talk]},
            {"id": f"{name}_2", "conversations": talk},
            {"id": "alone", "conversations": talk[:1]}]  # fmt: skip
    (tmp_path / "part.json").write_text(json.dumps(rows))
    data = read_hub(str(tmp_path), tokenizer, files="part.json")
    assert facts(data) == [("one", 1, 2, "sharegpt")]
    assert data.examples[0].conversation == name
    assert data.examples[0].split == split_of(conversation_bucket(f"{name}_0"))
    assert len(read_hub(str(tmp_path), tokenizer, later=True).examples) == 2


def test_messages_of_several_layouts(tmp_path, tokenizer):
    name = kept("id", conversation_bucket)[0]
    talk = [{"from": "human", "value": "one"}, {"from": "gpt", "value": "a b", "markdown": None}]
    folder = lines(tmp_path / "sg", [{"id": name, "conversations": talk}])
    assert facts(read_hub(folder, tokenizer)) == [("one", 1, 2, "sharegpt")]


def test_alpaca(tmp_path, tokenizer):
    first, second = kept("Name a colour. ")[0], kept("Translate.\n\nword ")[0]
    rows = [{"instruction": first, "input": "", "output": "a", "text": "x"},
            {"instruction": "Translate.", "input": second.split("\n\n")[1], "output": "a b",
             "text": "x"}]  # fmt: skip
    data = read_hub(parquet(tmp_path / "alpaca", rows), tokenizer)
    assert [(e.prompt, e.output_tokens) for e in data.examples] == [(first, 1), (second, 2)]
    assert {e.model for e in data.examples} == {"text-davinci-003"}


def test_rows_of_a_layout_without_ids_count_once_but_other_answers_of_that_length_too(
    tmp_path, tokenizer
):
    asked = kept("Name a colour. ")[0]
    rows = [{"instruction": asked, "input": "", "output": o} for o in ("a", "b", "a", "a")]
    data = read_hub(lines(tmp_path / "alpaca", rows), tokenizer)
    assert [(e.id, e.output_tokens) for e in data.examples] == [("row-1", 1), ("row-2", 1)]
    ((reason, count),) = data.skipped.items()
    assert count == 2
    assert "a column id or draw" in reason


PARTS = [
    {"type": "text", "text": "one "},
    {"type": "image_url", "image_url": {"url": "data:"}},
    {"type": "text", "text": "two"},
]


@pytest.mark.parametrize("write", [lines, parquet])
@pytest.mark.parametrize("layout", ["LMSYS", "WildChat"])
def test_messages_in_parts_are_the_text_of_their_parts(tmp_path, tokenizer, layout, write):
    key = {"LMSYS": "conversation_id", "WildChat": "conversation_hash"}[layout]
    names = kept("talk")
    talks = [
        said(PARTS, [{"type": "text", "text": "a b c"}]),
        said(PARTS[1:2], [{"type": "text", "text": "a"}]),  # nothing but an image
        said(PARTS[::2], [{"type": "refusal", "refusal": "no"}]),
        said(PARTS[:1], None),  # a tool call
        said(None, [{"type": "text", "text": "a"}]),
    ]
    rows = [
        {key: n, "model": "m", "conversation": talk} for n, talk in zip(names, talks, strict=False)
    ]
    folder = tmp_path / "parts"
    data = read_hub(write(folder, rows), tokenizer)
    assert facts(data) == [("one two", 2, 3, "m")]
    assert data.skipped == {"a question of blanks": 2, "an empty answer": 2}


def test_texts_and_parts_and_further_fields_may_mix(tmp_path, tokenizer):
    names = kept("talk")
    talks = [said("one", "a"), said(PARTS, "a b"), said("two", "c")]
    talks[2][1]["tool_calls"] = [{"id": 1}]
    rows = [
        {"conversation_id": n, "model": "m", "conversation": talk}
        for n, talk in zip(names, talks, strict=False)
    ]
    data = read_hub(lines(tmp_path / "mixed", rows), tokenizer)
    assert [(e.prompt, e.output_tokens) for e in data.examples] == [
        ("one", 1), ("one two", 2), ("two", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"conversation_id": "a", "model": "m", "conversation": said(3, "secret")},
         r"column conversation: content of message 1 must be text or parts .*, got int"),
        ({"conversation_hash": "a", "model": "m", "conversation": said("secret", {"secret": 1})},
         r"column conversation: content of message 2 must be text or parts .*, got dict"),
        ({"id": "a", "conversations": [{"from": "human", "value": "secret"},
                                       {"from": "gpt", "value": 2.5}]},
         r"column conversations: value of message 2 must be text or parts .*, got float"),
        ({"instruction": "secret", "input": "", "output": 7}, "column output must be text"),
        ({"instruction": 7, "input": "secret", "output": "x"}, "column instruction must be text"),
        ({"prompt": "secret", "generated": True}, "column generated must be text .*, got bool"),
    ],
)  # fmt: skip
def test_what_should_be_text_and_is_not_is_named_by_row_and_column(
    tmp_path, tokenizer, row, message
):
    with pytest.raises(ValueError, match=f"wrong: row 1: {message}") as caught:
        read_hub(lines(tmp_path / "wrong", [row]), tokenizer)
    assert "secret" not in str(caught.value)


def test_a_turn_without_text_is_a_hole_in_the_log(tmp_path, tokenizer):
    name = kept("id", conversation_bucket)[0]
    talk = [{"from": "human", "value": "one"}, {"from": "gpt", "value": None},
            {"from": "human", "value": None}, {"from": "gpt", "value": "a"}]  # fmt: skip
    other = kept("id", conversation_bucket)[1]
    rows = [{"id": name, "conversations": talk}, {"id": other, "conversations": talk[::3]}]
    data = read_hub(lines(tmp_path / "sg", rows), tokenizer, later=True)
    assert [e.prompt for e in data.examples] == ["one"]
    assert data.skipped == {"a question of blanks": 1, "an empty answer": 1}


def test_llama3_trace_cuts_at_its_limit(tmp_path, tokenizer):
    prompts = kept("prompt ")
    rows = [
        {"prompt": p, "generated": "a " * n} for p, n in zip(prompts, (3, 8192, 9), strict=False)
    ]
    folder = lines(tmp_path / "trace", rows)
    data = read_hub(folder, tokenizer, "llama-3-8b")
    stop, length = FinishReason.STOP, FinishReason.LENGTH
    assert [(e.output_tokens, e.finish_reason) for e in data.examples] == [
        (3, stop), (8192, length), (9, stop)]  # fmt: skip
    assert {e.model for e in data.examples} == {"llama-3-8b"}
    cut = read_hub(folder, tokenizer, limit=9, most=3).examples
    assert [e.finish_reason for e in cut] == [stop, length, length]
    assert len(read_hub(folder, tokenizer, most=1).examples) == 1


def test_nothing_of_a_data_set_is_kept_on_disk(lmsys, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    read_hub(lmsys[0], tokenizer, EVERY_MODEL)
    found = [p for p in (tmp_path / "hf").rglob("*") if p.is_file()]
    assert all(b"bonjour" not in p.read_bytes() for p in found)


def test_data_sets_that_are_none(tmp_path, tokenizer):
    with pytest.raises(ValueError, match=r"columns a, b are of no known data set .*LMSYS"):
        read_hub(lines(tmp_path / "x", [{"a": "secret", "b": 1}]), tokenizer)
    with pytest.raises(ValueError, match="row 2: not as LMSYS-Chat-1M has it") as caught:
        read_hub(
            lines(
                tmp_path / "y",
                [{"conversation_id": "a", "model": "m", "conversation": c} for c in ([], None)],
            ),
            tokenizer,
        )
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="not readable as a data set"):
        read_hub(str(tmp_path / "nowhere"), tokenizer)
    with pytest.raises(ValueError, match="no tokenizer there"):
        read_hub(str(tmp_path / "y"), tmp_path / "nowhere")
    with pytest.raises(ValueError, match="files are of several models; name one"):
        read_hub("LLM-ltr/Llama3-Trace", tokenizer)
