"""What the page gets: strict JSON of the board, and the part of the history that concerns it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from drift.entry import Entry
from drift.history import History
from drift.key import Key
from drift.sink import MonitoredStore
from drift.valuer import ValueConfig
from serving.dashboard.document import Reading
from tests.drift.conftest import make_stream


def entry(at: float, kind: str, **changes: object) -> Entry:
    values: dict[str, object] = {"actor": "ci", "served_model": "m", "before": "1", "after": "2"}
    return Entry(at=at, kind=kind, **{**values, **changes})  # type: ignore[arg-type]


def test_a_board_is_strict_json_and_comes_with_what_happened(tmp_path: Path) -> None:
    sink = MonitoredStore.open(
        tmp_path / "o.db", tmp_path / "e.jsonl", lambda: 2e9, value=ValueConfig(rest=1e9)
    )
    sink.store(make_stream(60, 0.5, 0))
    history = History(tmp_path / "h.db")
    history.add(
        [entry(5.0, "promotion", details={"prompt": "secret"}), entry(1.0, "reference")], 9.0
    )
    found = Reading(sink.board, history.path)()
    assert json.loads(json.dumps(found, allow_nan=False)) == json.loads(json.dumps(found))
    assert found["schema"] == 1
    assert found["models"][0]["served_model"] == "m"
    (only,) = found["log"]  # learning a reference is no news
    assert (only["kind"], only["label"], only["reasons"]) == ("promotion", "all", [])
    assert "details" not in only
    sink.close()
    history.close()


def test_each_series_has_the_trust_that_is_in_force(tmp_path: Path) -> None:
    sink = MonitoredStore.open(
        tmp_path / "o.db", tmp_path / "e.jsonl", lambda: 2e9, value=ValueConfig(rest=1e9)
    )
    outcomes = make_stream(400, 0.5, 0)
    sink.store([replace(o, tenant="ab"[i % 2]) for i, o in enumerate(outcomes)])
    whole = Key("m", "ranker", "1")
    trusts = {whole: 0.6, whole.part("", "a"): 0.2}
    (model,) = Reading(sink.board, trusts=lambda: trusts)()["models"]
    assert model["overall"]["trust"] == 0.6
    trusted = {row["tenant"]: row["trust"] for row in model["slices"]}
    assert (trusted["a"], trusted["b"]) == (0.2, None)
    assert Reading(sink.board)()["models"][0]["overall"]["trust"] is None
    sink.close()


def test_a_state_that_flaps_leaves_promotions_in(tmp_path: Path) -> None:
    history = History(tmp_path / "h.db")
    flaps = [entry(10.0 + i, "state", before="ok", after="warn") for i in range(300)]
    history.add([entry(1.0, "promotion"), *flaps], 9.0)
    sink = MonitoredStore.open(tmp_path / "o.db", tmp_path / "e.jsonl", lambda: 2e9)
    log = Reading(sink.board, history.path)()["log"]
    assert [e["kind"] for e in log].count("promotion") == 1
    assert [e["kind"] for e in log].count("state") == 200
    assert [e["at"] for e in log] == sorted(e["at"] for e in log)
    assert log[-1]["at"] == 309.0
    sink.close()
    history.close()


def test_no_history_yet_is_no_trouble_and_another_file_is(tmp_path: Path) -> None:
    sink = MonitoredStore.open(tmp_path / "o.db", tmp_path / "e.jsonl", lambda: 2e9)
    assert Reading(sink.board, tmp_path / "none.db")()["log"] == []
    assert Reading(sink.board)()["models"] == ()
    (tmp_path / "other").write_text("not a database, and long enough to be read as one" * 40)
    with pytest.raises(ValueError, match="is no history"):
        Reading(sink.board, tmp_path / "other")()
    sink.close()


def test_versions_before_the_one_in_use_keep_their_lines(tmp_path: Path) -> None:
    sink = MonitoredStore.open(
        tmp_path / "o.db", tmp_path / "e.jsonl", lambda: 2e9, value=ValueConfig(every=250, rest=0.0)
    )
    for version, start in (("1", 0), ("2", 300), ("3", 600), ("1", 900)):
        for i in range(0, 300, 50):
            sink.store(make_stream(50, 0.5, start + i, start=start + i, version=version))
    (model,) = sink.board().models
    assert (model.version, [one.version for one in model.past]) == ("1", ["2", "3"])
    assert all(one.worth for one in model.past)
    ends = [one.history[-1].at for one in model.past]
    assert ends == sorted(ends)
    # Back at version 1: its line goes on where it had stopped, though it is watched anew.
    times = [point.at for point in model.history]
    assert min(times) < ends[0] < ends[1] < max(times)
    assert model.overall.outcomes == 300
    sink.close()


def test_a_long_line_of_a_past_version_is_thinned_and_keeps_its_end() -> None:
    from drift.rows import THIN, _thin

    points = list(range(2000))
    thinned = _thin(points)
    assert len(thinned) <= THIN
    assert thinned[-1] == 1999
    assert _thin(points[:7]) == points[:7]
    assert list(_thin([])) == []
