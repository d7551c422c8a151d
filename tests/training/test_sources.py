from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ranker.types import FinishReason
from serving.cli import tables
from training.sources import Data, Example, Lengths, read_table, without_leaks
from training.split import bucket, split_of

ROWS = [
    {"prompt": f"prompt number {i}", "output_tokens": i, "finish_reason": "stop", "model": "m"}
    for i in range(60)
]


def lines(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def expected():
    kept = [r for r in ROWS if split_of(bucket(r["prompt"])) != "reserved"]
    return [(r["prompt"], r["output_tokens"], split_of(bucket(r["prompt"]))) for r in kept]


def test_json_lines_and_parquet_read_alike(tmp_path):
    jsonl = read_table(lines(tmp_path / "a b é.jsonl", ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    parquet = read_table(tmp_path / "a.parquet")
    for data in (jsonl, parquet):
        assert [(e.prompt, e.output_tokens, e.split) for e in data.examples] == expected()
        assert {e.model for e in data.examples} == {"m"}
    assert jsonl.digest("train") == parquet.digest("train") != jsonl.digest("test")


def test_the_prompts_are_not_copied_into_a_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    read_table(lines(tmp_path / "a.jsonl", ROWS))
    found = [p for p in (tmp_path / "hf").rglob("*") if p.is_file()]
    assert all(b"prompt number" not in p.read_bytes() for p in found)


def test_finish_reasons_ids_and_splits_of_the_file_count(tmp_path):
    rows = [
        {"prompt": "a", "output_tokens": 9, "finish_reason": "length", "id": "x", "split": "val"},
        {"prompt": "b", "output_tokens": 8, "finish_reason": None, "id": "y", "split": "train"},
        {"prompt": "c", "output_tokens": 7, "finish_reason": None, "id": "z", "split": "reserved"},
    ]
    a, b = read_table(lines(tmp_path / "a.jsonl", rows), "mine").examples
    assert (a.finish_reason, a.id, a.split, a.model) == (
        FinishReason.LENGTH,
        "x",
        "validation",
        "mine",
    )
    assert b.finish_reason is FinishReason.STOP
    assert Lengths.of([a, b]).censored.tolist() == [True, False]


def test_splits_of_the_file_that_share_prompts_are_parted(tmp_path, capsys):
    splits = (("Hello  there", "train"), ("hello there", "test"), ("other", "train"))
    rows = [{"prompt": p, "output_tokens": 1, "split": split} for p, split in splits]
    data = read_table(lines(tmp_path / "a.jsonl", rows))
    assert [(e.prompt, e.split) for e in data.examples] == [splits[1], splits[2]]
    assert data.leaks == 1
    tables.note_leaks(data)
    assert "a: 1 rows left out" in capsys.readouterr().err
    tables.note_leaks(read_table(lines(tmp_path / "a.jsonl", rows[1:])))
    assert capsys.readouterr().err == ""


def test_a_path_may_be_relative(tmp_path, monkeypatch):
    lines(tmp_path / "a.jsonl", ROWS)
    monkeypatch.chdir(tmp_path)
    assert read_table(Path("a.jsonl")).source == (tmp_path / "a.jsonl").as_uri()


def test_one_model_of_several_must_be_named(tmp_path):
    rows = [
        {"prompt": f"p{i}", "output_tokens": 1, "model": f"m{i % 2}", "split": "test"}
        for i in range(6)
    ]
    path = lines(tmp_path / "a.jsonl", rows)
    with pytest.raises(ValueError, match="--served-model"):
        read_table(path)
    assert len(read_table(path, "m1").examples) == 3
    with pytest.raises(ValueError, match="no rows of model m9"):
        read_table(path, "m9")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"output_tokens": 1}, "column prompt"),
        ({"prompt": "a"}, "column output_tokens"),
        ({"prompt": "a", "output_tokens": -1}, "output_tokens must be a whole number"),
        ({"prompt": "a", "output_tokens": 1.5}, "output_tokens must be a whole number"),
        ({"prompt": "a", "output_tokens": "many"}, "output_tokens must be a whole number"),
        ({"prompt": "a", "output_tokens": True}, "output_tokens must be a whole number"),
        ({"prompt": 7, "output_tokens": 1}, "prompt must be text"),
        ({"prompt": "a", "output_tokens": 1, "finish_reason": "tired"}, "finish_reason must be"),
        ({"prompt": "a", "output_tokens": 1, "split": "holdout"}, "split must be one of"),
    ],
)
def test_a_bad_row_is_named_without_its_text(tmp_path, row, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_table(lines(tmp_path / "a.jsonl", [row]))
    assert "row 1" in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        read_table(tmp_path / "none.parquet")
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(ValueError, match="must end in one of"):
        read_table(tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"prompt,output_tokens\nx,1\nsecret,4,5,6\n", "a.csv: not readable as csv"),
        ("a.csv", b"prompt,output_tokens\nsecret \xff,3\n", "a.csv: not readable as csv"),
        ("a.jsonl", b'{"prompt":"secret" "output_tokens":3}\n', "a.jsonl: not readable as json"),
        ("a.parquet", b"secret", "a.parquet: not readable as parquet"),
        ("a.jsonl", b"", "a.jsonl: no rows"),
    ],
)
def test_damaged_files_are_named_without_their_text(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_table(tmp_path / name)
    assert "secret" not in str(caught.value)


def example(prompt: str, split: str) -> Example:
    return Example(prompt, 1, FinishReason.STOP, "m", prompt, split)


def test_a_prompt_is_on_one_side_only():
    rows = [
        example("Same  PROMPT", "train"),
        example("same prompt", "validation"),
        example("other", "train"),
        example("shared", "validation"),
        example("Shared ", "test"),
    ]
    assert [e.prompt for e in without_leaks(rows)] == ["same prompt", "other", "Shared "]


def test_bad_examples_are_refused():
    with pytest.raises(ValueError, match="output_tokens"):
        Example("p", -1, FinishReason.STOP, "m", "1", "test")
    with pytest.raises(ValueError, match="split"):
        Example("p", 1, FinishReason.STOP, "m", "1", "reserved")
    with pytest.raises(ValueError, match="split"):
        Data("d", "s", ()).split("reserved")
