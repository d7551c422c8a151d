from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from training.promote import GateError, history, promote

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


class Fake:
    """A registry in memory: three versions, the third much worse, the fourth on other rows."""

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}
        self.kept: dict[str, str] = {}
        self.taus = {"1": 0.40, "2": 0.39, "3": 0.20, "4": 0.10}

    def resolve(self, name, alias):
        return self.aliases.get(alias)

    def versions(self, name):
        return sorted(self.taus, reverse=True)

    def set_alias(self, name, alias, version):
        self.aliases[alias] = version

    def tags(self, name):
        return dict(self.kept)

    def set_tag(self, name, key, value):
        self.kept[key] = value

    def metrics(self, name, version):
        tau = self.taus[version]
        return {"validation.tau": tau, "validation.tau_high": tau + 0.04}

    def run_tags(self, name, version):
        return {"validation_digest": "other" if version == "4" else "same"}


def move(registry, version, day=0, **options):
    return promote(registry, "r", version, by="ann", now=NOW + timedelta(days=day), **options)


def test_a_version_within_the_interval_passes_and_a_worse_one_does_not():
    registry = Fake()
    assert move(registry, "1").gate == "nothing to compare with"
    assert move(registry, "2", 1).gate == "validation tau 0.390 against 0.400"
    with pytest.raises(GateError, match="--force"):
        move(registry, "3", 2)
    assert registry.aliases == {"champion": "2"}
    assert len(history(registry.kept)) == 2
    assert move(registry, "3", 3, force=True).gate == "forced"
    assert registry.aliases == {"champion": "3"}


def test_other_rows_are_not_compared():
    registry = Fake()
    move(registry, "1")
    assert "not compared" in move(registry, "4", 1).gate


def test_the_history_is_in_order_and_utc():
    registry = Fake()
    move(registry, "1")
    local = timezone(timedelta(hours=5))
    promote(registry, "r", "2", by="bob", now=(NOW + timedelta(hours=1)).astimezone(local))
    moves = history(registry.kept)
    assert [(m.version, m.previous, m.by) for m in moves] == [("1", None, "ann"), ("2", "1", "bob")]
    assert moves[1].at == "2026-05-04T13:00:00+00:00"


def test_promoting_what_serves_changes_nothing():
    registry = Fake()
    move(registry, "1")
    assert move(registry, "1", 1).gate == "already there"
    assert len(history(registry.kept)) == 1


def test_a_move_that_fails_is_not_forgotten(monkeypatch):
    registry = Fake()

    def fail(*_):
        raise OSError("gone")

    monkeypatch.setattr(registry, "set_alias", fail)
    with pytest.raises(OSError, match="gone"):
        move(registry, "1")
    assert len(history(registry.kept)) == 1


@pytest.mark.parametrize("alias", ["latest", "Latest", "v1", "V22", "", "a b", "1x"])
def test_reserved_and_odd_aliases(alias):
    with pytest.raises(ValueError, match="alias"):
        move(Fake(), "1", alias=alias)


def test_an_unknown_version():
    with pytest.raises(ValueError, match="no version 9; it has 4, 3, 2, 1"):
        move(Fake(), "9")
