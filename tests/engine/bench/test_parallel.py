"""Runs over processes."""

import os
import subprocess
import sys
from multiprocessing.connection import wait

import pytest

from engine.bench.parallel import default_jobs, map_runs


def test_order_is_kept_and_progress_counts():
    done = []
    assert map_runs(abs, [-3, 2, -1, 0], 2, done.append) == [3, 2, 1, 0]
    assert done == [1, 2, 3, 4]


def test_one_job_stays_in_this_process():
    seen = []
    assert map_runs(seen.append, [1, 2], 1) == [None, None]  # a bound method of a local list
    assert seen == [1, 2]


def test_jobs_are_other_processes():
    assert os.getpid() not in map_runs(_pid, [None, None], 2)


def test_no_items():
    assert map_runs(abs, [], 4) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_is_raised_here_and_ends_the_others(jobs):
    import multiprocessing

    before = set(multiprocessing.active_children())
    with pytest.raises(ZeroDivisionError):
        map_runs((1).__truediv__, [0] + [1] * 20, jobs)
    for child in set(multiprocessing.active_children()) - before:
        # Not join: the pool's own thread may be collecting the child at this very moment.
        assert wait([child.sentinel], timeout=10), "a child outlived the error"


def test_children_end_with_a_parent_that_was_killed(tmp_path):
    held, blocked = tmp_path / "held", tmp_path / "blocked"
    os.mkfifo(held)
    os.mkfifo(blocked)
    # The children keep one end of ``held`` open while they wait for a reader of ``blocked``.
    code = (
        "import functools, os; from engine.bench.parallel import map_runs; "
        f"map_runs(functools.partial(os.open, flags=os.O_WRONLY), "
        f"[{str(held)!r}] * 2 + [{str(blocked)!r}] * 2, 2)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    with held.open("rb") as reader:  # opens once a child has opened it
        parent.kill()
        parent.wait()
        assert reader.read() == b"", "ends when the last child has closed its end"


def test_jobs_below_one_is_named():
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        map_runs(abs, [1], 0)


def test_default_jobs_is_a_count():
    assert 1 <= default_jobs() <= (os.cpu_count() or 1)


def _pid(_):
    return os.getpid()
