"""Retained prompts: bounded, private, idempotent, and nobody waits for them."""

from __future__ import annotations

import logging
import sqlite3
import stat
import threading
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift.outcomes import OutcomeStore
from drift.prompts import Prompt, PromptStore, RetentionConfig, forget
from drift.retention import Retention
from drift.retention_metrics import RetentionCollector

DAY = 86_400.0
NOW = 1_700_000_000.0
CONFIG = RetentionConfig(days=7.0)


def prompt(name: str, text: str = "why?", at: float = NOW, tenant: str = "") -> Prompt:
    return Prompt(name, "m", text, at, tenant)


def texts(path):
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT request_id, prompt FROM prompts ORDER BY at, seq").fetchall()
    return {name: text.decode("utf-8", "surrogatepass") for name, text in rows}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "là-bas" / "prompts.db"


ODD = ["nul \0 inside", "half a pair \ud800", "\udfff", "été 🎈", "x" * 1_000_000, " "]


def test_any_text_comes_back_as_it_was(path):
    with closing(PromptStore(path, CONFIG)) as store:
        kept = store.put([prompt(str(i), text) for i, text in enumerate(ODD)], NOW)
        assert (kept.new, kept.oversize, kept.deleted) == (len(ODD), 0, 0)
        assert texts(path) == {str(i): text for i, text in enumerate(ODD)}
        assert store.bytes == sum(len(t.encode("utf-8", "surrogatepass")) for t in ODD)


def test_the_first_prompt_of_an_id_stays_whoever_sends_it_again(path):
    with closing(PromptStore(path, CONFIG)) as store:
        assert store.put([prompt("a", "one"), prompt("a", "two")], NOW).new == 1
        assert store.put([prompt("a", "three"), prompt("b", "four")], NOW).new == 1
        assert (len(store), store.bytes) == (2, len("one") + len("four"))
    assert texts(path) == {"a": "one", "b": "four"}
    with closing(PromptStore(path, CONFIG)) as again:
        assert (len(again), again.bytes) == (2, 7)


def test_only_its_owner_may_read_it_and_its_log(path):
    path.parent.mkdir()
    path.touch(0o666)
    path.chmod(0o666)  # somebody's umask
    with closing(PromptStore(path, CONFIG)) as store:
        store.put([prompt("a")], NOW)
        files = sorted(path.parent.iterdir())
        assert [f.name for f in files] == ["prompts.db", "prompts.db-shm", "prompts.db-wal"]
        assert {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}


def test_what_is_too_old_goes_whether_or_not_something_comes(path):
    with closing(PromptStore(path, CONFIG)) as store:
        store.put([prompt("old", at=NOW - 6.9 * DAY), prompt("new")], NOW)
        assert store.put([prompt("late", at=NOW - 8 * DAY)], NOW) == (1, 0, 1)
        assert store.prune(NOW + 0.2 * DAY) == 1
        assert list(texts(path)) == ["new"]
        assert store.prune(NOW + 8 * DAY) == 1
        assert (len(store), store.bytes) == (0, 0)


def test_a_prompt_that_is_too_large_is_counted_and_not_kept(path):
    with closing(PromptStore(path, RetentionConfig(1.0, prompt_bytes=10))) as store:
        assert store.put([prompt("a", "x" * 11), prompt("b", "é" * 5)], NOW) == (1, 1, 0)
    assert list(texts(path)) == ["b"]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40), st.integers(0, 20)),
                      max_size=8), max_size=8),
    st.integers(1, 12),
    st.integers(1, 150),
)  # fmt: skip
def test_bounds_hold_after_every_put_and_the_newest_stay(tmp_path_factory, puts, rows, size):
    path = tmp_path_factory.mktemp("p") / "prompts.db"
    known: dict[str, tuple[float, int, int]] = {}
    order = 0
    with closing(PromptStore(path, RetentionConfig(1.0, rows, size))) as store:
        for batch in puts:
            store.put([prompt(str(n), "x" * length, NOW + at) for n, length, at in batch], NOW + 20)
            for n, length, at in batch:
                if str(n) not in known:
                    known[str(n)] = (NOW + at, order, length)
                    order += 1
            # By arrival, oldest first, until both bounds hold.
            for name in sorted(known, key=known.__getitem__):
                if len(known) <= rows and sum(v[2] for v in known.values()) <= size:
                    break
                del known[name]
            assert (len(store), store.bytes) == (len(known), sum(v[2] for v in known.values()))
            assert set(texts(path)) == set(known)


def test_forgotten_prompts_are_nowhere_in_the_files(path):
    with closing(PromptStore(path, CONFIG)) as store:
        store.put([prompt("a", "swordfish " * 500, NOW - DAY, "acme"), prompt("b", "tuna", NOW),
                   prompt("c", "perch", NOW, "acme")], NOW)  # fmt: skip
        assert forget(path, before=NOW - 1.0, tenant="other") == 0
        assert forget(path, before=NOW - 1.0) == 1
        assert (len(store), store.bytes) == (2, 9)
        for file in path.parent.iterdir():
            assert b"swordfish" not in file.read_bytes()
        assert forget(path, tenant="acme") == 1
        assert forget(path) == 1
        assert store.put([prompt("d")], NOW).new == 1  # and the service goes on
    with pytest.raises(ValueError, match="none were retained"):
        forget(path.with_name("other.db"))


def test_files_that_are_no_prompts_are_refused(path, tmp_path):
    path.parent.mkdir()
    path.write_text("plain text, long enough to be no database" * 50)
    with pytest.raises(ValueError, match="is not a store of prompts"):
        PromptStore(path, CONFIG)
    OutcomeStore(tmp_path / "outcomes.db").close()
    with pytest.raises(ValueError, match="is not a store of prompts"):
        PromptStore(tmp_path / "outcomes.db", CONFIG)


@pytest.mark.parametrize(
    "wrong", [{"days": 0.0}, {"days": float("nan")}, {"days": 1.0, "bytes": 0}]
)
def test_bounds_that_are_none(wrong):
    with pytest.raises(ValueError, match=f"retention.{list(wrong)[-1]}"):
        RetentionConfig(**wrong)


def test_what_waits_is_written_at_the_end(path):
    retention = Retention(path, CONFIG, lambda: NOW)
    retention.offer([prompt(str(i)) for i in range(2000)])
    retention.close()
    retention.close()
    counts = retention.counts()
    assert (counts.kept, counts.dropped, counts.prompts) == (2000, 0, 2000)
    retention.offer([prompt("after")])
    assert retention.counts().dropped == 1


def test_too_many_that_wait_are_dropped_and_counted(path, monkeypatch):
    """The disk stands still: nobody waits, and memory is bounded by number and by size."""
    put, stands, started = PromptStore.put, threading.Event(), threading.Event()

    def slow(self, prompts, now):
        started.set()
        stands.wait(30.0)
        return put(self, prompts, now)

    monkeypatch.setattr(PromptStore, "put", slow)
    config = RetentionConfig(1.0, waiting=5, waiting_bytes=100)
    retention = Retention(path, config, lambda: NOW)
    retention.offer([prompt("first")])
    assert started.wait(30.0)
    retention.offer([prompt(str(i), "x" * 10) for i in range(7)])
    assert retention.counts().dropped == 2
    retention.offer([prompt("large", "x" * 100)])
    assert retention.counts().dropped == 3
    stands.set()
    retention.close()
    assert retention.counts().kept == 6


def test_a_disk_in_trouble_loses_prompts_and_says_so_without_a_word_of_them(
    path, monkeypatch, caplog
):
    def full(self, prompts, now):
        raise sqlite3.OperationalError("disk is full: secret words")

    monkeypatch.setattr(PromptStore, "put", full)
    retention = Retention(path, CONFIG, lambda: NOW)
    with caplog.at_level(logging.ERROR):
        retention.offer([prompt("a", "secret words")])
        retention.close()
    assert retention.counts().failed == 1
    assert "1 prompts were not retained (OperationalError)" in caplog.text
    assert "secret" not in caplog.text


def test_a_start_deletes_what_became_too_old_meanwhile(path):
    with closing(PromptStore(path, CONFIG)) as store:
        store.put([prompt("old"), prompt("new", at=NOW + 3 * DAY)], NOW)
    retention = Retention(path, CONFIG, lambda: NOW + 8 * DAY)
    assert (retention.counts().deleted, retention.counts().prompts) == (1, 1)
    retention.close()


def test_counts_are_exported(path):
    from prometheus_client import CollectorRegistry

    retention = Retention(path, CONFIG, lambda: NOW)
    registry = CollectorRegistry()
    registry.register(RetentionCollector(retention))
    retention.offer([prompt("a", "four")])
    retention.close()

    def value(name, **labels):
        return registry.get_sample_value(f"shortfirst_drift_prompts{name}", labels)

    assert value("_total", result="kept") == 1.0
    assert value("_total", result="dropped") == 0.0
    assert (value("_held"), value("_held_bytes")) == (1.0, 4.0)


def text_on_disk(path, text: bytes) -> bool:
    return any(text in file.read_bytes() for file in path.parent.iterdir())


def test_what_was_pruned_is_nowhere_in_the_files(path):
    """Beside another process that has it open, so that no last close empties the log."""
    with closing(PromptStore(path, CONFIG)), closing(PromptStore(path, CONFIG)) as store:
        store.put([prompt("a", "swordfish " * 500, NOW - DAY), prompt("b", "tuna")], NOW)
        assert text_on_disk(path, b"swordfish")
        assert store.prune(NOW + 6.5 * DAY) == 1
        assert not store.stale
        assert not text_on_disk(path, b"swordfish")
        # Within a minute of that, the log waits; a minute later no more, nor at the end.
        store.put([prompt("c", "swordfish " * 500, NOW - DAY)], NOW + 6.5 * DAY + 1.0)
        assert store.stale
        store.prune(NOW + 6.5 * DAY + 61.0)
        assert not store.stale
        assert not text_on_disk(path, b"swordfish")
        store.put([prompt("d", "swordfish " * 500, NOW - DAY)], NOW + 6.5 * DAY + 62.0)
        assert store.stale
        store.close()
        assert not text_on_disk(path, b"swordfish")


def test_a_reader_that_holds_the_log_is_told_of_and_tried_again(path):
    with closing(PromptStore(path, CONFIG)) as store, closing(sqlite3.connect(path)) as reader:
        store.put([prompt("a", "swordfish " * 500)], NOW)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM prompts").fetchone()
        with pytest.raises(ValueError, match=r"1 prompts were deleted, but prompts\.db-wal may"):
            forget(path, wait_s=0.01)
        assert text_on_disk(path, b"swordfish")
        reader.execute("COMMIT")
        assert forget(path) == 0
        assert not text_on_disk(path, b"swordfish")
