from __future__ import annotations

import json
import sqlite3

import pytest

from drift.outcomes import OutcomeStore
from ranker.types import FinishReason, Forecast, Outcome
from training.sources.outcomes import joined, read_outcomes, read_prompts
from training.split import bucket, split_of


def outcome(name: str, tokens: int, reason: str = "stop", model: str = "m") -> Outcome:
    forecast = Forecast(0.5, (10.0, 90.0), "ranker", "3", (0.5, 0.9))
    return Outcome(name, model, tokens, FinishReason(reason), 100.0, 104.5, 12, forecast)


def prompt(i: int) -> str:
    found = [t for t in (f"prompt {n}" for n in range(200)) if split_of(bucket(t)) != "reserved"]
    return found[i]


@pytest.fixture
def store(tmp_path):
    """As a server leaves it: open, with its newest rows still in the log beside the file."""
    made = OutcomeStore(tmp_path / "outcomes é.db")
    made.store([outcome("a", 7), outcome("b", 90, "length"), outcome("c", 5), outcome("d", 1)])
    yield made
    made.close()


def lines(path, *rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_outcomes_meet_their_prompts_by_request_id(store, tmp_path):
    chat = [{"role": "user", "content": prompt(2)}, {"role": "assistant", "content": "yes"},
            {"role": "user", "content": "and then?"}]  # fmt: skip
    asked = lines(
        tmp_path / "prompts.jsonl",
        {"request_id": "b", "prompt": prompt(1)},
        {"request_id": "a", "prompt": prompt(0)},
        {"request_id": "c", "messages": chat},
        {"request_id": "e", "prompt": prompt(3)},
    )
    data = read_outcomes(store.path, asked)
    assert [(e.id, e.prompt, e.output_tokens, str(e.finish_reason)) for e in data.examples] == [
        ("a", prompt(0), 7, "stop"),
        ("b", prompt(1), 90, "length"),
        ("c", "and then?", 5, "stop"),
    ]
    assert [e.split for e in data.examples] == [split_of(bucket(prompt(i))) for i in range(3)]
    assert {(e.model, e.prompt_tokens) for e in data.examples} == {("m", 12)}
    assert data.skipped == {
        "outcomes whose request id has no prompt": 1,
        "prompts whose request id has no outcome": 1,
    }


def test_the_store_can_be_written_to_while_it_is_read_and_is_not_changed(store, tmp_path):
    asked = read_prompts(
        lines(tmp_path / "p.jsonl", *({"request_id": n, "prompt": prompt(0)} for n in "abcdx"))
    )
    assert len(joined(store.by_report(), asked)[0]) == 4
    before = len(store)
    store.store([outcome("x", 3)])
    path = lines(tmp_path / "q.jsonl", *({"request_id": n, "prompt": prompt(0)} for n in "abcdx"))
    assert [e.id for e in read_outcomes(store.path, path).examples] == list("abcdx")
    assert len(store) == before + 1


def test_one_model_of_several(store, tmp_path):
    store.store([outcome("x", 3, model="n")])
    path = lines(
        tmp_path / "p.jsonl", *({"request_id": n, "prompt": prompt(i)} for i, n in enumerate("ax"))
    )
    assert [e.id for e in read_outcomes(store.path, path, "n").examples] == ["x"]
    with pytest.raises(ValueError, match="--served-model"):
        read_outcomes(store.path, path)


def test_a_conversation_that_is_named_decides_the_split(tmp_path, store):
    path = lines(
        tmp_path / "p.jsonl",
        *({"request_id": n, "prompt": prompt(i), "conversation": "talk 3"} for i, n in
          enumerate("abcd")),
    )  # fmt: skip
    assert split_of(bucket("talk 3")) != "reserved"
    assert {(e.split, e.conversation) for e in read_outcomes(store.path, path).examples} == {
        (split_of(bucket("talk 3")), "talk 3")
    }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"prompt": "secret"}], "row 1: column request_id is missing"),
        ([{"request_id": "a"}], "row 1: column prompt is missing"),
        ([{"request_id": "a", "prompt": " "}], "row 1: column prompt holds only blanks"),
        ([{"request_id": "a", "messages": []}], "row 1: column messages is missing or empty"),
        ([{"request_id": "a", "prompt": "secret"}] * 2, "row 2: column request_id repeats .*row 1"),
        ([{"request_id": "nobody", "prompt": "secret"}], "no rows.*; 4: outcomes whose request id"),
    ],
)
def test_prompts_that_are_none(store, tmp_path, rows, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_outcomes(store.path, lines(tmp_path / "p.jsonl", *rows))
    assert "secret" not in str(caught.value)


def test_files_that_are_no_stores(tmp_path):
    asked = lines(tmp_path / "p.jsonl", {"request_id": "a", "prompt": "x"})
    with pytest.raises(ValueError, match=r"none\.db: no such file"):
        read_outcomes(tmp_path / "none.db", asked)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(ValueError, match=r"p\.jsonl: not a store of outcomes"):
        read_outcomes(asked, asked)
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(ValueError, match="has format 0 of outcomes, not 1"):
        read_outcomes(tmp_path / "other.db", asked)
