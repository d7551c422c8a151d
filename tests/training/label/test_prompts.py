from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.label.asked import of_sharegpt, of_table
from training.label.prompts import Prompt, choose
from training.sharegpt import ShareGpt, Turn
from training.split import SPLITS, plain

TEXT = st.text(st.characters(codec=None), max_size=6)
PROMPTS = st.lists(
    st.builds(Prompt, TEXT, TEXT, TEXT, st.sampled_from(SPLITS)), min_size=1, max_size=20
)


@given(PROMPTS)
def test_equal_prompts_are_asked_once_and_held_out_ones_are_never_trained_on(prompts):
    chosen = choose(prompts)
    assert len({plain(p.text) for p in chosen}) == len(chosen)
    assert {plain(p.text) for p in chosen} == {plain(p.text) for p in prompts}
    rank = ("test", "validation", "train").index
    for p in chosen:
        others = [q.split for q in prompts if plain(q.text) == plain(p.text)]
        assert rank(p.split) == min(map(rank, others))


@given(PROMPTS, st.randoms())
def test_the_order_is_by_split_and_hash_whatever_order_they_come_in(prompts, random):
    mixed = list(prompts)
    random.shuffle(mixed)
    keys = [p.key for p in choose(prompts)]
    assert [p.key for p in choose(mixed)] == keys
    splits = [p.split for p in choose(prompts)]
    assert splits == sorted(splits, key=("test", "validation", "train").index)
    for split in SPLITS:
        of_split = [p.key for p in choose(prompts) if p.split == split]
        assert of_split == sorted(of_split)


def test_splits_limits_and_long_prompts():
    prompts = [Prompt("x" * n, str(n), "", SPLITS[n % 3]) for n in range(1, 31)]
    assert {p.split for p in choose(prompts, splits=["test"])} == {"test"}
    assert max(len(p.text) for p in choose(prompts, most_chars=12)) == 12
    few = choose(prompts, limit=2)
    assert len(few) == 6
    assert [p for p in choose(prompts, limit=3) if p in few] == few
    for wrong, message in (
        ({"splits": ["reserved"]}, "split must be one of"),
        ({"limit": -1}, "limit"),
        ({"most_chars": -1}, "most_chars"),
    ):
        with pytest.raises(ValueError, match=message):
            choose(prompts, **wrong)
    with pytest.raises(ValueError, match="no prompt is left"):
        choose(prompts[3:], most_chars=1)


def test_first_turns_of_sharegpt():
    turn = Turn("a_0", 0, 0, "test", "hello", 1, 2)
    (found,) = of_sharegpt(ShareGpt((turn,), (turn,), ""))
    assert (found.text, found.id, found.conversation, found.split) == (
        "hello",
        "a_0",
        "a_0",
        "test",
    )
    assert "hello" not in repr(found)


def test_a_table_of_prompts(tmp_path):
    rows = [
        {"prompt": "eins", "id": "a", "conversation": "c", "split": "val"},
        {"prompt": "zwei", "id": 7, "split": "train", "output_tokens": 3},
        {"prompt": "EINS ", "id": "a", "split": "validation"},
        {"prompt": "drei", "split": "reserved"},
        {"prompt": "vier", "split": "test"},
    ]
    path = tmp_path / "frägen.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [(p.id, p.conversation, p.split) for p in of_table(path)]
    assert found == [
        ("a", "c", "validation"), ("7", "7", "train"), ("a", "a", "validation"),
        ("row-5", "row-5", "test"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "a"}, "row 2: column prompt"),
        ({"prompt": " ", "id": "b"}, "row 2: column prompt"),
        ({"prompt": "anders", "id": "a"}, "row 2: column id repeats"),
        ({"prompt": "x", "split": "dev"}, "row 2: column split"),
    ],
)
def test_what_a_table_of_prompts_must_hold(tmp_path, row, message):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"prompt": "eins", "id": "a"}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=message):
        of_table(path)
    path.write_text('{"prompt": "nur", "split": "reserved"}\n')
    with pytest.raises(ValueError, match="no prompt"):
        of_table(path)
