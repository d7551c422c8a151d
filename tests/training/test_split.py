from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from training.split import bucket, conversation_bucket, split_of


def test_the_rule_of_the_data_notes():
    for name in ("QWJhYvA_0", " Mixed  Case_17", "x_y_3"):
        base = name.rsplit("_", 1)[0]
        plain = " ".join(base.split()).lower()
        expected = int(hashlib.sha1(plain.encode()).hexdigest()[:8], 16) % 100
        assert conversation_bucket(name) == expected


def test_parts_of_a_conversation_share_a_bucket():
    assert len({conversation_bucket(f"abc_{n}") for n in range(50)}) == 1
    assert bucket("A  b\n") == bucket("a b")


def test_ranges():
    counted = Counter(split_of(b) for b in range(100))
    assert counted == {"reserved": 20, "test": 10, "validation": 10, "train": 60}
    assert [split_of(b) for b in (0, 19, 20, 29, 30, 39, 40, 99)] == [
        "reserved",
        "reserved",
        "test",
        "test",
        "validation",
        "validation",
        "train",
        "train",
    ]
    with pytest.raises(ValueError, match="between 0 and 99"):
        split_of(100)
