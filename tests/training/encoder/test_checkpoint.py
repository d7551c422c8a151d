"""A run on disk: whole or not there, and of this run or refused."""

from __future__ import annotations

import os

import pytest
import torch

from training.encoder import checkpoint
from training.encoder.checkpoint import Course

IDENTITY = {"encoder.seed": 0, "training rows": "abc"}


def test_round_trip(tmp_path):
    path = tmp_path / "blank and é" / checkpoint.NAME
    course = Course(7, [0.1, 1 / 3], [(3, 0.25), (7, 0.2)])
    tensors = {"w": torch.tensor([1.0, 1e-30]), "b": torch.tensor(3.0)}
    checkpoint.save(path, course, IDENTITY, tensors)
    found = checkpoint.load(path, IDENTITY)
    assert found is not None
    assert found[0] == course
    assert all(torch.equal(found[1][name], tensor) for name, tensor in tensors.items())
    assert os.listdir(path.parent) == [checkpoint.NAME]


def test_patience_counts_from_the_first_best():
    course = Course(9, [], [(3, 0.2), (6, 0.3), (9, 0.3)])
    assert course.best == (6, 0.3)
    assert course.worse_since_best == 1


def test_nothing_there_is_a_fresh_start(tmp_path):
    assert checkpoint.load(tmp_path / checkpoint.NAME, IDENTITY) is None


def test_another_run_is_refused_by_what_differs(tmp_path):
    path = tmp_path / checkpoint.NAME
    checkpoint.save(path, Course(), IDENTITY, {})
    with pytest.raises(ValueError, match=r"encoder\.seed was 0, now 1\. Go on with the same"):
        checkpoint.load(path, IDENTITY | {"encoder.seed": 1})


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_damaged_file_is_refused(tmp_path, keep):
    path = tmp_path / checkpoint.NAME
    checkpoint.save(path, Course(1, [0.5]), IDENTITY, {"w": torch.ones(100)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="remove it to start again"):
        checkpoint.load(path, IDENTITY)


def test_a_pickle_is_never_read(tmp_path):
    path = tmp_path / checkpoint.NAME
    torch.save({"w": torch.ones(3)}, path)
    with pytest.raises(ValueError, match="not a checkpoint"):
        checkpoint.load(path, IDENTITY)
