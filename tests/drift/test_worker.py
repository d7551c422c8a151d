"""Slow work around the monitor: order, coalescing, bounds, and an end that loses nothing."""

from __future__ import annotations

import threading

import pytest

from drift.worker import Inline, Worker


class Held:
    """A worker whose thread waits in a first job until it is let go."""

    def __init__(self, most: int = 64) -> None:
        self.worker, self.ran = Worker(most=most), []
        self._go, begun = threading.Event(), threading.Event()

        def hold():
            begun.set()
            self._go.wait(30)

        self.worker.submit("hold", hold)
        assert begun.wait(30)

    def submit(self, key, urgent=False, word=None):
        return self.worker.submit(key, lambda: self.ran.append(word or key), urgent)

    def go(self):
        self._go.set()
        self.worker.drain()
        return self.ran


@pytest.fixture
def held():
    made = Held()
    yield made
    made.go()
    made.worker.close()


def test_urgent_jobs_go_first_and_each_sort_keeps_its_order(held):
    for key in "ab":
        held.submit(key)
    for key in "yz":
        held.submit(key, urgent=True)
    assert held.worker.waiting == 4
    assert held.go() == ["y", "z", "a", "b"]


def test_a_waiting_job_gives_its_place_to_the_newer_one_of_its_key(held):
    held.submit("a", word="old")
    held.submit("b")
    held.submit("a", word="new")
    assert held.go() == ["new", "b"]


def test_what_finds_no_place_is_refused_and_counted():
    held = Held(most=2)
    assert held.submit("a")
    assert held.submit("b")
    assert not held.submit("c")
    assert held.submit("a", word="again")  # it has a place
    assert held.worker.dropped == 1
    assert held.go() == ["again", "b"]
    held.worker.close()


def test_the_end_runs_what_waits_and_what_that_hands_in(held):
    def more():
        held.ran.append("first")
        assert held.worker.submit("second", lambda: held.ran.append("second"))

    held.worker.submit("first", more)
    closing = threading.Thread(target=held.worker.close)
    closing.start()
    held._go.set()
    closing.join()
    assert held.ran == ["first", "second"]
    assert not held.submit("third")
    held.worker.close()


@pytest.mark.parametrize("made", [Inline, Worker])
def test_a_job_that_fails_is_logged_and_others_follow(made, caplog):
    work, ran = made(), []

    def fail():
        raise RuntimeError("broken")

    assert work.submit("a", fail)
    assert work.submit("b", lambda: ran.append("b"))
    work.drain()
    work.close()
    assert ran == ["b"]
    assert "broken" in caplog.text


def test_inline_has_run_when_it_returns():
    ran = []
    assert Inline().submit("a", lambda: ran.append(1))
    assert ran == [1]
    assert Inline.inline
    assert not Worker.inline
