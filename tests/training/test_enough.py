from __future__ import annotations

from dataclasses import replace

import pytest

from training.enough import LEAST_TRAIN, LEAST_VALIDATION, enough, enough_to_judge
from training.evaluate import LEAST_ROWS
from training.sources import Origin


def test_the_least_rows_are_taken_and_one_less_of_either_is_refused(examples):
    train = [replace(e, split="train") for e in examples[:LEAST_TRAIN]]
    validation = [replace(e, split="validation") for e in examples[-LEAST_VALIDATION:]]
    test = [e for e in examples if e.split == "test"]
    assert enough([*test, *validation, *train]) == (train, validation)
    for few in ((train[1:], validation), (train, validation[1:])):
        message = f"{len(few[0])} training and {len(few[1])} validation rows are too few"
        with pytest.raises(ValueError, match=message):
            enough([*few[0], *few[1], *test])


def test_the_least_rows_judge_and_one_less_is_refused(examples):
    for split in ("test", "validation"):
        rows = [replace(e, split=split) for e in examples[:LEAST_ROWS]]
        rest = [e for e in examples if e.split == "train"]
        assert enough_to_judge([*rest, *rows], "log", split) == rows
        with pytest.raises(ValueError, match=f"{LEAST_ROWS - 1} {split} rows are too few to judge"):
            enough_to_judge([*rest, *rows[1:]], "log", split)


@pytest.mark.parametrize("check", [enough, enough_to_judge])
def test_the_error_names_the_source_and_what_to_do(examples, check):
    with pytest.raises(ValueError, match=r"^log: column split: .*: give more rows, or say in the"):
        check(examples[:3], "log")
    live = [replace(e, origin=Origin(0.0)) for e in examples[:3]]
    with pytest.raises(ValueError, match=r"^outcomes of m: \d.*: wait for more traffic$"):
        check(live, "outcomes of m")
