"""Moves of an alias, and the record of them."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.gate.parts import Shelf, invented
from training.gate import GateError, OvertakenError, Verdict, history, promote, rollback

DATA = invented(8)
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.fixture
def shelf():
    made = Shelf(DATA)
    for _ in range(4):
        made.add(None)
    return made


def move(shelf, version, obstacle="", **options):
    verdict = Verdict("r", version, "champion", shelf.resolve("r", "champion"), obstacle=obstacle)
    return promote(shelf, verdict, **{"by": "ann", "now": NOW, **options})


def back(shelf, **options):
    return rollback(shelf, "r", **{"by": "bob", "now": NOW, **options})


def test_each_move_is_appended_in_order_and_utc(shelf):
    move(shelf, "1")
    local = timezone(timedelta(hours=5))
    move(shelf, "2", now=(NOW + timedelta(hours=1)).astimezone(local))
    found = history(shelf.kept)
    assert [(m.number, m.version, m.previous) for m in found.moves] == [
        (1, "1", None),
        (2, "2", "1"),
    ]
    assert found.moves[1].at == "2026-05-04T13:00:00+00:00"
    assert found.moves[1].before == found.moves[0].digest
    assert not found.fault
    assert shelf.aliases == {"champion": "2"}


def test_promoting_what_serves_changes_nothing(shelf):
    move(shelf, "1")
    assert move(shelf, "1").gate == "serves already"
    assert len(history(shelf.kept).moves) == 1


def test_a_refusal_is_kept_and_force_is_recorded(shelf):
    move(shelf, "1")
    with pytest.raises(GateError, match=r"other rows.*--force"):
        move(shelf, "2", obstacle="other rows")
    assert shelf.aliases == {"champion": "1"}
    (path,) = shelf.files
    assert path == "2/gate/2026-05-04T120000+0000-refused.json"
    assert shelf.files[path]["summary"] == "other rows"
    assert move(shelf, "2", obstacle="other rows", force=True).kind == "force"
    assert shelf.aliases == {"champion": "2"}


def test_rolling_back_walks_back_and_not_to_and_fro(shelf):
    for version in ("1", "2", "3"):
        move(shelf, version)
    assert [back(shelf).version, back(shelf).version] == ["2", "1"]
    with pytest.raises(ValueError, match="no version served before version 1"):
        back(shelf)
    move(shelf, "4")
    assert back(shelf).version == "1"
    kinds = [m.kind for m in history(shelf.kept).moves]
    assert kinds == ["promote"] * 3 + ["rollback"] * 2 + ["promote", "rollback"]


@given(st.lists(st.integers(0, 9), min_size=2, max_size=8, unique=True))
def test_rollbacks_undo_promotions_in_reverse(order):
    shelf = Shelf(DATA)
    for _ in range(10):
        shelf.add(None)
    versions = [str(v + 1) for v in order]
    for version in versions:
        move(shelf, version)
    assert [back(shelf).version for _ in versions[1:]] == versions[-2::-1]


def test_what_served_before_the_first_recorded_move_can_be_gone_back_to(shelf):
    shelf.aliases["champion"] = "1"  # by other means
    move(shelf, "2")
    assert (back(shelf).version, shelf.aliases["champion"]) == ("1", "1")
    with pytest.raises(ValueError, match="no version served before version 1"):
        back(shelf)


def test_rolling_back_to_a_version_and_past_those_that_are_gone(shelf):
    for version in ("1", "2", "3"):
        move(shelf, version)
    with pytest.raises(ValueError, match="serves already"):
        back(shelf, to="3")
    with pytest.raises(ValueError, match="no version 9"):
        back(shelf, to="9")
    del shelf.rankers["2"]
    assert back(shelf).version == "1"
    assert back(shelf, to="4").version == "4"
    assert back(shelf).version == "1"


def test_an_alias_that_was_moved_by_other_means_is_gone_back_from(shelf):
    move(shelf, "1")
    shelf.aliases["champion"] = "3"
    moved = back(shelf)
    assert (moved.version, moved.previous) == ("1", "3")


@pytest.mark.parametrize("alter", ["change", "remove"])
def test_an_altered_history_is_noticed(shelf, alter):
    for version in ("1", "2", "3"):
        move(shelf, version)
    key = next(k for k in shelf.kept if k.startswith("promotion.000002"))
    if alter == "change":
        entry = json.loads(shelf.kept[key])
        shelf.kept[key] = json.dumps({**entry, "by": "eve"}, sort_keys=True)
    else:
        del shelf.kept[key]
    found = history(shelf.kept)
    assert "before number 3 was changed or taken away" in found.fault
    assert [m.version for m in found.moves] == ["3"]
    assert move(shelf, "4").number == 4  # whoever is on call can still act


def test_two_at_the_same_moment_agree_on_one(shelf):
    """The rival reads and writes its entry just before ours is written."""
    move(shelf, "1")
    mine = Verdict("r", "2", "champion", "1")
    shelf.before_tag = lambda: move(shelf, "3", by="rival")
    with suppress(OvertakenError):  # of the two that stands whose digest is lower
        promote(shelf, mine, by="ann", now=NOW)
    standing = history(shelf.kept).moves[-1]
    assert (standing.by, standing.version) in (("ann", "2"), ("rival", "3"))
    assert shelf.aliases == {"champion": standing.version}
    assert [m.number for m in history(shelf.kept).moves] == [1, 2]
    assert sum(key.startswith("promotion.000002") for key in shelf.kept) == 2  # none overwritten


def test_what_moved_since_it_was_compared_is_not_overrun(shelf):
    move(shelf, "1")
    verdict = Verdict("r", "2", "champion", "1")
    move(shelf, "3")
    with pytest.raises(OvertakenError, match="moved to version 3 since"):
        promote(shelf, verdict, by="ann", now=NOW)
    assert shelf.aliases == {"champion": "3"}


def test_a_move_that_fails_is_not_forgotten(shelf, monkeypatch):
    def fail(*_):
        raise OSError("gone")

    monkeypatch.setattr(shelf, "set_alias", fail)
    with pytest.raises(OSError, match="gone"):
        move(shelf, "1")
    assert len(history(shelf.kept).moves) == 1


@pytest.mark.parametrize("alias", ["latest", "Latest", "v1", "V22", "", "a b", "1x"])
def test_reserved_and_odd_aliases(shelf, alias):
    with pytest.raises(ValueError, match="alias"):
        back(shelf, alias=alias, to="1")


def test_other_tags_are_no_history():
    assert history({"team": "search", "promotion.x": "?"}).moves == ()
