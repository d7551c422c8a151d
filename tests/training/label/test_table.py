from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau

from ranker.types import FinishReason
from training.label import table
from training.label.agreement import agreement
from training.label.answer import Label
from training.label.prompts import Prompt
from training.label.sampling import Sampling
from training.label.tally import Tally
from training.sources import read_table

SAMPLING = Sampling("toy", temperature=0.2, repetition_penalty=1.1, max_tokens=50)
PROMPTS = [Prompt(f"word {n}", f"p{n}", f"c{n}", "test" if n % 2 else "train") for n in range(8)]


def label(prompt: Prompt, draw: int, tokens: int, reason=FinishReason.STOP) -> Label:
    where = (prompt.key, prompt.id, prompt.conversation, prompt.split)
    return Label(*where, draw, 1, 5, tokens, reason)


LABELS = [label(p, d, 7 * i + d) for d in (1, 0) for i, p in enumerate(PROMPTS)]


@pytest.mark.parametrize("name", ["längen é.parquet", "lengths.jsonl"])
def test_with_prompts_it_is_what_train_reads(tmp_path, name):
    path = tmp_path / "new" / name
    cut = label(PROMPTS[0], 2, 50, FinishReason.LENGTH)
    labels = [*LABELS, cut, label(PROMPTS[1], 2, 0, FinishReason.ERROR)]
    table.write(path, table.rows(labels, SAMPLING, {p.key: p.text for p in PROMPTS}))
    data = read_table(path)
    assert len(data.examples) == 17  # refused prompts have no length
    found = {e.id: e for e in data.examples}
    assert found["p3/1"].output_tokens == 22
    assert found["p3/1"].prompt == "word 3"
    assert found["p0/2"].finish_reason is FinishReason.LENGTH
    assert {e.split for e in data.examples} == {"train", "test"}
    assert data.examples[0].model == "toy"
    assert [p.name for p in path.parent.iterdir()] == [name]


def test_without_them_it_holds_no_text_and_the_columns_of_the_bundled_lengths(tmp_path):
    path = tmp_path / "lengths.parquet"
    table.write(path, table.rows(LABELS, SAMPLING))
    names = pq.read_schema(path).names
    assert names[:8] == [
        "conversation_id", "draw", "temperature", "repetition_penalty", "prompt_tokens",
        "output_tokens", "finish_reason", "split",
    ]  # fmt: skip
    assert "prompt" not in names
    assert b"word" not in path.read_bytes()


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.parquet or \.jsonl"):
        table.check(tmp_path / "lengths.csv")
    with pytest.raises(ValueError, match="no label"):
        table.write(tmp_path / "lengths.parquet", [])
    half = table.rows(LABELS[:1], SAMPLING, {p.key: "\ud800" for p in PROMPTS})
    table.check(tmp_path / "whole.parquet", ["é", "🙂", "\0"])
    with pytest.raises(ValueError, match="surrogate"):
        table.check(tmp_path / "half.parquet", ["whole", "\ud800"])
    table.check(tmp_path / "half.jsonl", ["\ud800"])
    table.write(tmp_path / "half.jsonl", half)
    assert {e.prompt for e in read_table(tmp_path / "half.jsonl").examples} == {"\ud800"}
    with pytest.raises(ValueError, match=r"p\d.*--keep-prompts"):
        table.rows(LABELS, SAMPLING, {})


def test_agreement_is_tau_between_draws_of_each_split():
    lengths = {"p1": (5, 9), "p3": (6, 8), "p5": (9, 20), "p7": (12, 11), "p0": (1, 1)}
    by_id = {p.id: p for p in PROMPTS}
    labels = [label(by_id[n], d, x) for n, pair in lengths.items() for d, x in enumerate(pair)]
    labels.append(label(by_id["p2"], 0, 3))
    found = agreement([x.example("toy") for x in labels])
    first, second = zip(*(lengths[n] for n in ("p1", "p3", "p5", "p7")), strict=True)
    assert found["test"].tau == pytest.approx(kendalltau(first, second).statistic)
    assert found["test"].prompts == 4
    assert found["test"].low <= found["test"].tau <= found["test"].high
    assert "validation" not in found
    assert agreement([]) == {}


def test_a_tally_says_pace_and_end():
    tally = Tally(total=100, began=50.0)
    assert tally.left_s(50.0) is None
    tally.add(label(PROMPTS[0], 0, 30, FinishReason.LENGTH))
    assert tally.left_s(51.0) is None  # one answer is no pace
    for i in range(1, 20):
        tally.add(label(PROMPTS[0], 0, 30, FinishReason.LENGTH if i < 5 else FinishReason.STOP))
    for i in range(5):  # three prompts, two of them with a second draw
        tally.add(label(PROMPTS[1 + i % 3], i // 3, 0, FinishReason.ERROR))
    assert tally.rate(60.0) == 60.0
    assert tally.left_s(60.0) == 30.0
    line = "25 of 100 answers, 60 tokens/s, 25% censored, 3 prompts refused, 1:02:30 left"
    assert tally.line(50.0 + 10 * 125) == line.replace("60 tokens/s", "0 tokens/s")
