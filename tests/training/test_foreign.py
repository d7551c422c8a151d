from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from training import foreign

LENGTHS = [
    ("llmdrift/countahappynumber", "gpt-4-0314", 1899, "stop"),
    ("llmdrift/countahappynumber", "gpt-4-0314", 1999, "length"),  # counted otherwise than cut
    ("llmdrift/prime_full", "gpt-4-0314", 998, "length"),
    ("llmdrift/prime_full", "gpt-4-0314", 900, "stop"),
    ("self_instruct_human_eval", "davinci", 1021, "length"),
    ("self_instruct_human_eval", "text-davinci-003", 1023, "stop"),
    ("alpaca_eval/koala", "phi-2", 2005, "length"),
    ("alpaca_eval/koala", "mistral-medium", 2005, "stop"),
    ("alpaca_eval/koala", "mistral-medium", 4040, "length"),
    ("livecodebench", "o1-mini-2024-09-12", 1825, "stop"),
]


@pytest.fixture
def path(tmp_path):
    rows = [
        {"id": str(i), "source": s, "model": m, "prompt": f"prompt {i}", "prompt_tokens": 2,
         "response_tokens": t, "split": ("train", "val", "test")[i % 3]}
        for i, (s, m, t, _) in enumerate(LENGTHS)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "others é.parquet")
    return tmp_path / "others é.parquet"


def test_answers_at_a_limit_are_lower_bounds(path):
    found = {e.id: e for s in foreign.sources(path) for e in foreign.load(path, s)}
    reasons = [str(found[str(i)].finish_reason) for i in range(len(LENGTHS))]
    assert reasons == [reason for *_, reason in LENGTHS]


def test_splits_are_the_files_own_when_wanted(path):
    assert [e.split for e in foreign.load(path, "alpaca_eval/koala", own_splits=True)] == [
        "train",
        "validation",
        "test",
    ]
    assert {e.split for e in foreign.load(path, "alpaca_eval/koala")} == {"test"}


def test_what_is_missing_is_named(path, tmp_path):
    with pytest.raises(ValueError, match=r"none\.parquet: no such file"):
        foreign.load(tmp_path / "none.parquet", "x")
    with pytest.raises(ValueError, match="source 'x' has no rows"):
        foreign.load(path, "x")
    pq.write_table(pa.table({"source": ["x"]}), tmp_path / "narrow.parquet")
    with pytest.raises(ValueError, match="needs the columns id, source"):
        foreign.load(tmp_path / "narrow.parquet", "x")
