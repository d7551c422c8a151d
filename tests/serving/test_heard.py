"""A listener in trouble fails no report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from drift.delivery import Delivery
from drift.sink import MonitoredStore
from ranker.types import Outcome
from serving.heard import Heard
from tests.drift.conftest import make_stream
from tests.serving.parts import SECRET


def test_what_is_stored_is_acknowledged_whatever_becomes_of_who_listens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []

    def broken(outcomes: Sequence[Outcome]) -> None:
        told.append(len(outcomes))
        raise ValueError(SECRET)

    sink = MonitoredStore.open(tmp_path / "o.db", tmp_path / "e.jsonl", lambda: 1.8e9)
    delivery = Delivery(make_stream(7, 0.4, 1))
    with caplog.at_level(logging.ERROR):
        first, again = (Heard(sink, broken).receive(delivery, 1.8e9) for _ in range(2))
    sink.close()
    assert (first.stored, again.stored, again.duplicates) == (7, 0, 7)
    assert told == [7, 7]
    assert "ValueError at" in caplog.text
    assert SECRET not in caplog.text
