"""Slow work around the monitor, in one thread: whoever reports outcomes never waits for it."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol

log = logging.getLogger(__name__)

Job = Callable[[], None]


class Work(Protocol):
    """Where slow work is handed in: :class:`Worker` in a service, :class:`Inline` elsewhere."""

    @property
    def dropped(self) -> int:
        """Jobs that found no place and were refused."""
        ...

    @property
    def inline(self) -> bool:
        """Whether a job has run when :meth:`submit` returns."""
        ...

    @property
    def inside(self) -> bool:
        """Whether the caller is a job of a thread that runs one at a time."""
        ...

    def submit(self, key: Hashable, job: Job, urgent: bool = False) -> bool:
        """Run ``job`` soon; return whether it will be.

        A job of the same ``key`` that still waits gives its place to this one and does not run: so
        let a job take what is to be done from a buffer. Urgent ones go first; each sort keeps its
        order. A job that fails is logged.
        """
        ...

    def drain(self) -> None:
        """Return when nothing waits and nothing runs."""
        ...

    def close(self) -> None:
        """Run what waits, then take nothing more."""
        ...


class Inline:
    """At once, in the thread of the caller: for tests and commands, which want it to be sure."""

    inline = True
    inside = False
    dropped = 0

    def submit(self, key: Hashable, job: Job, urgent: bool = False) -> bool:
        _run(job)
        return True

    def drain(self) -> None:
        return None

    def close(self) -> None:
        return None


class Worker:
    """One thread. At most ``most`` keys wait, so memory is bounded whatever comes in; what finds no
    place is counted in ``dropped`` and refused. Safe for several threads, its own jobs included.
    """

    inline = False

    def __init__(self, name: str = "drift-worker", most: int = 64) -> None:
        if most < 1:
            raise ValueError(f"worker.most must be >= 1, got {most}")
        self.dropped = 0
        self._most = most
        self._urgent: OrderedDict[Hashable, Job] = OrderedDict()
        self._calm: OrderedDict[Hashable, Job] = OrderedDict()
        self._changed = threading.Condition()
        self._busy = self._closing = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def inside(self) -> bool:
        """See :class:`Work`."""
        return threading.current_thread() is self._thread

    @property
    def waiting(self) -> int:
        """Jobs that do not run yet."""
        with self._changed:
            return len(self._urgent) + len(self._calm)

    def submit(self, key: Hashable, job: Job, urgent: bool = False) -> bool:
        """See :class:`Work`. Returns at once. Jobs may hand in others until the last has run."""
        with self._changed:
            mine = self._urgent if urgent else self._calm
            ending = self._closing and not self.inside
            full = key not in mine and len(self._urgent) + len(self._calm) >= self._most
            if ending or full:
                self.dropped += 1
                return False
            mine[key] = job  # one that waits already keeps its place
            self._changed.notify_all()
        return True

    def drain(self) -> None:
        """See :class:`Work`. Not for a job: it would wait for itself."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._busy or self._urgent or self._calm))

    def close(self) -> None:
        """See :class:`Work`. Closing twice is harmless."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            _run(job)

    def _next(self) -> Job | None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closing or self._urgent or self._calm)
            for waiting in (self._urgent, self._calm):
                if waiting:
                    _, job = waiting.popitem(last=False)
                    self._busy = True
                    return job
            return None


def _run(job: Job) -> None:
    try:
        job()
    except Exception:  # the thread has to live on
        log.exception("work around the drift monitor failed")
