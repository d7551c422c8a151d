from __future__ import annotations

from dataclasses import replace

import pytest

from ranker.records import DatasetRecord, RunRecord
from training import unfinished

DATA = DatasetRecord("toys-train", "training", "made up", "d1", {})
RECORD = RunRecord("tests", "a run", {"seed": 3, "tier": "blend"}, {"by": "ann"}, (DATA,))


def test_the_run_that_was_left_is_found_by_the_same_settings_and_data(tmp_path):
    workdir = tmp_path / "là bas" / "work"
    assert unfinished.run_id(workdir, RECORD) == ""
    unfinished.keep(workdir, RECORD, "abc")
    assert unfinished.run_id(workdir, replace(RECORD, tags={"by": "bob"})) == "abc"
    assert [p.name for p in workdir.iterdir()] == ["run.json"]
    for other in (
        replace(RECORD, params={"seed": 4, "tier": "blend"}),
        replace(RECORD, datasets=(replace(DATA, digest="d2"),)),
        replace(RECORD, name="another"),
    ):
        assert unfinished.run_id(workdir, other) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '"x"'])
def test_a_damaged_note_is_no_run(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    assert unfinished.run_id(tmp_path, RECORD) == ""


def test_without_a_folder_nothing_is_left():
    unfinished.keep(None, RECORD, "abc")
    assert unfinished.run_id(None, RECORD) == ""
