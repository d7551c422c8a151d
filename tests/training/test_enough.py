from __future__ import annotations

from dataclasses import replace

import pytest

from training.enough import LEAST_TRAIN, LEAST_VALIDATION, enough


def test_the_least_rows_are_taken_and_one_less_of_either_is_refused(examples):
    train = [replace(e, split="train") for e in examples[:LEAST_TRAIN]]
    validation = [replace(e, split="validation") for e in examples[-LEAST_VALIDATION:]]
    test = [e for e in examples if e.split == "test"]
    assert enough([*test, *validation, *train]) == (train, validation)
    for few in ((train[1:], validation), (train, validation[1:])):
        message = f"{len(few[0])} training and {len(few[1])} validation rows are too few"
        with pytest.raises(ValueError, match=message):
            enough([*few[0], *few[1], *test])
