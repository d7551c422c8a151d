"""Runs that do not depend on one another, over processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def default_jobs() -> int:
    """The cores that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_runs(
    function: Callable[[T], R],
    items: Sequence[T],
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> list[R]:
    """``function`` of each item, in the order of ``items``; ``jobs`` at a time.

    One job runs in this process. With more, function, items and results travel by pickle, so the
    function must be importable (``functools.partial`` of one is). ``progress`` is told how many are
    done after each. An exception, Ctrl-C among them, ends the other processes at once and is
    raised here.

    Raises ``ValueError`` below one job.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    if min(jobs, len(items)) <= 1:
        results = []
        for item in items:
            results.append(function(item))
            progress(len(results))
        return results
    return _over_processes(function, items, jobs, progress)


def alone(function: Callable[[T], R], item: T) -> R:
    """``function`` of ``item`` in a process of its own, whose memory nobody else has grown."""
    return _over_processes(function, [item], 1, lambda done: None)[0]


def _over_processes(
    function: Callable[[T], R], items: Sequence[T], jobs: int, progress: Callable[[int], None]
) -> list[R]:
    # Not fork: a progress bar has a thread, and a forked child inherits its locks, not its thread.
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(jobs, len(items)), context, _die_on_interrupt)
    results: dict[int, R] = {}
    try:
        futures = {pool.submit(function, item): index for index, item in enumerate(items)}
        for future in as_completed(futures):
            results[futures[future]] = future.result()
            progress(len(results))
    except BaseException:
        started = set(multiprocessing.active_children()) - before
        pool.shutdown(wait=False, cancel_futures=True)
        for child in started:
            child.terminate()
        raise
    pool.shutdown()
    return [results[index] for index in range(len(items))]


def over_seeds(
    function: Callable[[tuple[T, int]], R],
    cells: Sequence[T],
    seeds: Sequence[int],
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> list[list[R]]:
    """``function`` of each cell and seed: for each cell its results in the order of ``seeds``.

    As :func:`map_runs`; ``progress`` counts cells times seeds. Raises ``ValueError`` without seeds.
    """
    if not seeds:
        raise ValueError("seeds must not be empty")
    items = [(cell, seed) for cell in cells for seed in seeds]
    found = map_runs(function, items, jobs, progress)
    return [found[first : first + len(seeds)] for first in range(0, len(found), len(seeds))]


def _die_on_interrupt() -> None:
    """Ctrl-C reaches the whole process group; a child has nothing to say about it.

    A parent that was killed cannot end its children, so each watches it.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
