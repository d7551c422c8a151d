from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from ranker.metrics import order
from ranker.types import FinishReason
from serving.cli import tables
from training.draws import Draws
from training.sources import (
    EVERY_MODEL,
    Data,
    Example,
    Lengths,
    deduplicated,
    digest,
    read_table,
    refuse_leaks,
    refuse_unorderable,
    without_leaks,
)
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


def test_splits_of_the_file_that_share_prompts_are_refused(tmp_path):
    splits = (("Hello  there", "train"), ("hello there", "test"), ("other", "train"))
    rows = [{"prompt": p, "output_tokens": 1, "split": split, "id": p[0]} for p, split in splits]
    rows[1]["id"] = "x"
    with pytest.raises(ValueError, match=r"a: column split: .* 1 train rows \(ids H\)") as caught:
        read_table(lines(tmp_path / "a.jsonl", rows))
    assert "hello" not in str(caught.value).lower()
    assert len(read_table(lines(tmp_path / "a.jsonl", rows[1:])).examples) == 2


def test_turns_of_one_conversation_are_on_one_side(tmp_path):
    rows = [
        {"prompt": f"turn {i} of {c}", "output_tokens": i, "conversation": f"talk {c}"}
        for c in range(40)
        for i in range(3)
    ]
    sides = {}
    for e in read_table(lines(tmp_path / "a.jsonl", rows)).examples:
        sides.setdefault(e.conversation, set()).add(e.split)
        assert e.split == split_of(bucket(e.conversation))
    assert len(sides) > 20
    assert all(len(splits) == 1 for splits in sides.values())


def test_what_is_left_out_is_said(tmp_path, capsys):
    # Conversations part these by hash; the prompt that they share is then on two sides.
    named = {
        split: next(c for c in map(str, range(99)) if split_of(bucket(c)) == split)
        for split in ("train", "test")
    }
    rows = [
        {"prompt": "Same  prompt", "output_tokens": 1, "conversation": named["train"]},
        {"prompt": "same prompt", "output_tokens": 2, "conversation": named["test"]},
    ]
    data = read_table(lines(tmp_path / "a.jsonl", rows))
    assert [e.split for e in data.examples] == ["test"]
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
        ({"prompt": 7, "output_tokens": 1}, "column prompt must be text"),
        (
            {"prompt": "a", "output_tokens": 1, "finish_reason": "tired"},
            "column finish_reason must be",
        ),
        ({"prompt": "a", "output_tokens": 1, "split": "holdout"}, "column split must be one of"),
        ({"prompt": "a", "output_tokens": float("nan")}, "output_tokens must be .* got nan"),
        ({"prompt": "a", "output_tokens": float("inf")}, "output_tokens must be .* got inf"),
        ({"prompt": "a", "output_tokens": None}, "column output_tokens is missing"),
        ({"prompt": " \n\u2003", "output_tokens": 1}, "column prompt holds only blanks"),
        ({"prompt": "a", "output_tokens": 1, "prompt_tokens": "few"}, "column prompt_tokens must"),
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
        ("a.csv", b"prompt,output_tokens\nx,1\nsecret,4,5,6\n", "a.csv: row 2: has 4 cells"),
        ("a.csv", b"prompt,output_tokens\nsecret \xff,3\n", "a.csv: not readable as CSV"),
        (
            "a.jsonl",
            b'{"prompt":"secret" "output_tokens":3}\n',
            "a.jsonl: row 1: not readable as JSON",
        ),
        ("a.parquet", b"secret", "a.parquet: not readable as Parquet"),
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


def test_a_digest_tells_prompts_and_numbers_apart_and_nothing_else():
    rows = [example(f"prompt {i}", "train") for i in range(3)]
    told = digest(rows)
    others = [{"prompt": "another"}, {"output_tokens": 9}, {"id": "x"}, {"split": "test"}]
    changed = {digest([*rows[:2], replace(rows[2], **other)]) for other in others}
    assert len(changed | {told, digest(rows[:2]), digest(rows[::-1])}) == 7
    assert digest([replace(e, weight=2.0) for e in rows]) == told
    data = Data("toys", "made up", (*rows, example("held", "test")))
    assert data.digest("train") == told


def test_bad_examples_are_refused():
    with pytest.raises(ValueError, match="output_tokens"):
        Example("p", -1, FinishReason.STOP, "m", "1", "test")
    with pytest.raises(ValueError, match="split"):
        Example("p", 1, FinishReason.STOP, "m", "1", "reserved")
    with pytest.raises(ValueError, match="split"):
        Data("d", "s", ()).split("reserved")


def test_names_of_columns_are_free(tmp_path):
    rows = [{"q": f"prompt {i}", "n": i, "why": "length"} for i in range(30)]
    path = lines(tmp_path / "a.jsonl", rows)
    names = {"prompt": "q", "output_tokens": "n", "finish_reason": "why"}
    data = read_table(path, columns=names)
    assert all(e.prompt == f"prompt {e.output_tokens}" for e in data.examples)
    assert {e.finish_reason for e in data.examples} == {FinishReason.LENGTH}
    with pytest.raises(ValueError, match="row 1: column n is missing"):
        read_table(lines(tmp_path / "b.jsonl", [{"q": "x"}]), columns=names)
    with pytest.raises(ValueError, match=r"columns\.tokens is unknown; known are prompt"):
        read_table(path, columns={"tokens": "n"})


def test_draws_share_an_id_and_repeats_do_not(tmp_path):
    drawn = [
        {"prompt": "a", "output_tokens": t, "id": "x", "draw": d, "split": "train"}
        for d, t in enumerate((5, 5, 9))
    ]
    data = read_table(lines(tmp_path / "a.jsonl", drawn))
    assert [(e.id, e.output_tokens) for e in data.examples] == [("x/0", 5), ("x/1", 5), ("x/2", 9)]
    drawn[2]["draw"] = 0
    with pytest.raises(ValueError, match=r"row 3: column id repeats that of .*a\.jsonl: row 1"):
        read_table(lines(tmp_path / "a.jsonl", drawn))


BARE = [{"prompt": f"q {i}", "output_tokens": i % 7, "finish_reason": "stop"} for i in range(40)]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_file_without_ids_that_was_exported_twice_counts_once(tmp_path, kind, capsys):
    once, twice = tmp_path / f"once.{kind}", tmp_path / f"twice.{kind}"
    for path, rows in ((once, BARE), (twice, BARE + BARE)):
        if kind == "jsonl":
            lines(path, rows)
        else:
            table = pa.Table.from_pylist(rows)
            (pq.write_table if kind == "parquet" else csv.write_csv)(table, path)
    data = read_table(twice)
    assert data.examples == read_table(once).examples  # ids and order too
    assert not Draws.of(data.examples).several.any()  # so that no ceiling is made up
    ((reason, count),) = data.skipped.items()
    assert count == len(data.examples)  # the reserved ones are nobody's
    tables.note_leaks(data)
    said = capsys.readouterr().err
    assert f"twice: {count} rows left out: the same as an earlier row" in said
    assert "a column id or draw" in " ".join(said.split())
    assert "q 1" not in reason


@pytest.mark.parametrize("column", ["id", "draw"])
def test_repeats_that_an_id_or_a_draw_tells_apart_are_draws(tmp_path, column):
    rows = [{**row, column: str(i)} for i, row in enumerate(BARE[:9] * 2)]
    data = read_table(lines(tmp_path / "a.jsonl", rows))
    assert data.skipped == {}
    assert len(data.examples) == 2 * len(read_table(lines(tmp_path / "b.jsonl", BARE[:9])).examples)


@pytest.mark.parametrize(
    "other",
    [
        {"output_tokens": 6}, {"finish_reason": "length"}, {"model": "n"}, {"conversation": "d"},
        {"prompt_tokens": 4}, {"id": "x"}, {"draw": 1},
    ],
)  # fmt: skip
def test_rows_without_ids_that_differ_in_any_column_all_count(tmp_path, other):
    row = {"prompt": "Same  prompt", "output_tokens": 5, "finish_reason": "stop", "model": "m",
           "conversation": "c", "prompt_tokens": 3, "split": "train"}  # fmt: skip
    rows = [row, {**row, **other}, {**row, "prompt": "same prompt "}]
    data = read_table(lines(tmp_path / "a.jsonl", rows), EVERY_MODEL)
    assert [e.id.split("/")[0] for e in data.examples] == ["row-1", other.get("id", "row-2")]
    assert list(data.skipped.values()) == [1]


def test_an_empty_id_is_none(tmp_path):
    rows = [{"prompt": "a", "output_tokens": 5, "split": "train", "id": i} for i in (None, "", "x")]
    data = read_table(lines(tmp_path / "a.jsonl", [*rows, {**rows[0], "id": None}]))
    assert [e.id for e in data.examples] == ["row-1", "x"]
    assert list(data.skipped.values()) == [2]


def test_a_row_without_an_id_on_two_sides_is_a_leak_and_no_repeat(tmp_path):
    rows = [{"prompt": "a", "output_tokens": 5, "split": split} for split in ("test", "train")]
    with pytest.raises(ValueError, match=r"column split: .* 1 train rows"):
        read_table(lines(tmp_path / "a.jsonl", rows))


def test_the_reason_names_the_columns_as_the_file_has_them(tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"prompt": "a", "output_tokens": 5, "split": "train"}] * 2)
    (reason,) = read_table(path, columns={"id": "request"}).skipped
    assert "a column request or draw keeps" in reason


@given(
    st.lists(
        st.fixed_dictionaries(
            {"prompt": st.sampled_from(["A b", "a  B", "c"]), "output_tokens": st.integers(0, 2)},
            optional={"draw": st.integers(0, 1), "conversation": st.sampled_from("xy")},
        ),
        min_size=1,
        max_size=20,
    )
)
def test_reading_a_file_twice_over_adds_only_the_rows_that_have_a_draw(tmp_path_factory, rows):
    rows = [{**row, "split": "train"} for row in rows]
    folder = tmp_path_factory.mktemp("twice")
    once = read_table(lines(folder / "a.jsonl", rows))
    twice = read_table(lines(folder / "b.jsonl", rows + rows))
    assert twice.examples[: len(once.examples)] == once.examples
    assert len(twice.examples) == len(once.examples) + sum("draw" in row for row in rows)
    for data, size in ((once, len(rows)), (twice, 2 * len(rows))):
        assert len(data.examples) + sum(data.skipped.values()) == size
        assert len({e.id for e in data.examples}) == len(data.examples)


def test_each_model_has_ids_of_its_own(tmp_path):
    rows = [
        {"prompt": "a", "output_tokens": 5, "id": "x", "model": m, "split": "train"} for m in "mn"
    ]
    path = lines(tmp_path / "a.jsonl", rows)
    assert [e.model for e in read_table(path, "n").examples] == ["n"]
    assert [e.model for e in read_table(path, EVERY_MODEL).examples] == ["m", "n"]


ODD = [
    "\ud83d alone",
    "nul \0 inside",
    "שלום עולם",
    "👩‍👩‍👧‍👦",
    "def f():\n\treturn {}",
    "é" * (1 << 20),
]


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_odd_prompts_come_through_unchanged(tmp_path, kind):
    rows = [{"prompt": text, "output_tokens": i, "split": "train"} for i, text in enumerate(ODD)]
    path = tmp_path / f"a.{kind}"
    if kind in ("csv", "parquet"):  # both hold UTF-8, which has no lone surrogates
        rows = rows[1:]
        table = pa.Table.from_pylist(rows)
        (pq.write_table if kind == "parquet" else csv.write_csv)(table, path)
    elif kind == "json":
        path.write_text(json.dumps(rows, indent=1))
    else:
        lines(path, rows)
    data = read_table(path)
    assert [e.prompt for e in data.examples] == [row["prompt"] for row in rows]
    assert len(data.digest("train")) == 16


def test_whole_numbers_as_floats_and_as_text(tmp_path):
    content = "prompt,output_tokens,split\na,5.0,train\nb,7,train\n"
    (tmp_path / "a.csv").write_text(content)
    found = read_table(tmp_path / "a.csv").examples
    assert [e.output_tokens for e in found] == [5, 7]
    for bad in ("5.5", "-1", "nan", "many"):
        (tmp_path / "a.csv").write_text(content + f"c,{bad},train\n")
        with pytest.raises(ValueError, match=r"row 3: column output_tokens must be a whole"):
            read_table(tmp_path / "a.csv")


def pool(*rows: tuple[str, int, str]) -> Data:
    made = [
        Example(f"p{i}", tokens, FinishReason(why), "m", f"id{i}", split)
        for i, (split, tokens, why) in enumerate(rows)
    ]
    return Data("pool", "made up", tuple(made))


FINE = [("train", 1, "stop"), ("train", 2, "stop"), ("validation", 1, "stop")]
TESTED = [*FINE, ("validation", 9, "stop")]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "column split: no train rows among 0"),
        (FINE[:2], "column split: no validation rows among 2"),
        ([("train", i, "length") for i in range(5)], r"column finish_reason: all 5 .*row id0"),
        ([("train", 7, "stop"), ("train", 7, "length")], r"output_tokens is 7 in all 2 .*row id0"),
        ([*FINE, ("validation", 1, "stop")], r"output_tokens is 1 in all 2 validation rows"),
        (TESTED, "pool: column split: no test rows among 4"),
        ([*TESTED, ("test", 3, "length"), ("test", 4, "abort")], r"cut off.* answers that ended"),
        ([*TESTED, ("test", 3, "stop"), ("test", 3, "stop")], r"all 2 test .*id4.* to judge by"),
        ([*TESTED, ("test", 3, "stop"), ("test", 2, "length")], r"have 3 tokens .* cut off before"),
    ],
)
def test_data_without_an_order_is_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        refuse_unorderable(pool(*rows))


def test_data_with_an_order_is_not_refused():
    for other in ((2, "stop"), (2, "length")):
        refuse_unorderable(pool(*TESTED, ("test", 1, "stop"), ("test", *other)))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["stop", "length"])), min_size=1))
def test_test_rows_are_refused_when_they_give_no_tau(rows):
    tokens, cut = [n for n, _ in rows], [why == "length" for _, why in rows]
    known = order(np.arange(len(rows)), tokens, cut, resamples=0).tau
    try:
        refuse_unorderable(pool(*TESTED, *(("test", *row) for row in rows)))
    except ValueError:
        # Bounds at the one length that there is are refused too: that they are longer says little.
        assert np.isnan(known) or len(set(tokens)) == 1
    else:
        assert not np.isnan(known)


words = st.sampled_from(["Hello", "hello ", "HELLO", "other", "Other\n", "third"])
drawn_rows = st.lists(
    st.builds(
        Example,
        prompt=words,
        output_tokens=st.integers(0, 2),
        finish_reason=st.sampled_from(FinishReason),
        model=st.sampled_from(["m", "n"]),
        id=st.sampled_from("abc"),
        split=st.sampled_from(["train", "validation", "test"]),
        conversation=st.sampled_from(["", "one", "two"]),
    ),
    max_size=30,
)


@given(drawn_rows)
def test_no_repeat_is_left_and_nothing_else_is_lost(rows):
    def key(e):
        plain = " ".join(e.prompt.split()).lower()
        return plain, e.model, e.output_tokens, e.finish_reason, e.id

    kept = deduplicated(rows)
    assert len({key(e) for e in kept}) == len(kept)
    assert {key(e) for e in kept} == {key(e) for e in rows}
    assert deduplicated(kept) == kept


@given(drawn_rows)
def test_what_is_left_of_leaking_splits_does_not_leak(rows):
    kept = without_leaks(rows)
    refuse_leaks(Data("kept", "made up", tuple(kept)))
    assert [e for e in kept if e.split == "test"] == [e for e in rows if e.split == "test"]
    assert without_leaks(kept) == kept
    if len(kept) < len(rows):
        with pytest.raises(ValueError, match="column split"):
            refuse_leaks(Data("rows", "made up", tuple(rows)))
    sides = {}
    for e in kept:
        for trait in (" ".join(e.prompt.split()).lower(), e.conversation and (e.conversation,)):
            sides.setdefault(trait or id(e), set()).add(e.split)
    assert all(len(found) == 1 for found in sides.values())
