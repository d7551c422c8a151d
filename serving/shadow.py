"""The challenger beside the ranker that serves: it scores live prompts too, and nobody waits."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drift.comparison import Comparison, Rivals, Verdict, compared
from drift.entry import Entry
from drift.files import write_whole
from drift.shadow import Beside, Shadow, ShadowConfig
from ranker.types import Outcome, Ranker
from serving.challengers import Challengers
from serving.logs import failure
from serving.ranked import Ranked
from serving.rankers import Several

log = logging.getLogger(__name__)

#: Prompts that the challenger scores at once: few, so that the interpreter is soon free again.
_AT_ONCE = 8
_END_S = 5.0
#: Served models with a challenger at work, at most; the longest unused goes.
_MOST = 32


@dataclass(frozen=True, slots=True)
class ShadowerConfig:
    """``queue`` prompts may wait for the challenger, of ``chars`` characters together; more are
    dropped and counted. ``share``: of one core, what scoring may take."""

    queue: int = 4096
    chars: int = 16 << 20
    share: float = 0.25
    shadow: ShadowConfig = field(default_factory=ShadowConfig)

    def __post_init__(self) -> None:
        for name in ("queue", "chars"):
            if getattr(self, name) < 1:
                raise ValueError(f"shadower.{name} must be >= 1, got {getattr(self, name)}")
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"shadower.share must lie in (0, 1], got {self.share}")


@dataclass(frozen=True, slots=True)
class _Job:
    beside: Beside
    ranker: Ranker = field(repr=False)
    ids: tuple[str, ...]
    prompts: tuple[str, ...] = field(repr=False)


class Shadower:
    """Scores with every challenger that stands beside a version that serves.

    :meth:`ranked` is a consumer of :class:`serving.ranked.HandedOn`, :meth:`ended` is told of
    outcomes; each may come from a thread of its own. Scoring has one more, which keeps to its share
    of a core and gives way while live prompts wait (``busy`` tells how many). It keeps the system's
    usual priority on purpose: a thread that the system puts last while it holds the interpreter's
    lock keeps everybody waiting.

    ``file`` is where the last comparisons are written for ``shortfirst drift status``; ``announce``
    hears of a verdict that changed; ``clock`` gives Unix seconds. ``counts``: prompts ``scored``,
    ``dropped`` and ``failed``.
    """

    def __init__(
        self,
        challengers: Challengers,
        announce: Callable[[Entry], None],
        clock: Callable[[], float],
        file: Path | None = None,
        config: ShadowerConfig | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._challengers = challengers
        self._announce = announce
        self._clock = clock
        self._file = file
        self._config = config or ShadowerConfig()
        self._busy: Callable[[], int] = lambda: 0
        self._changed = threading.Condition()
        self._beside: OrderedDict[str, Beside] = OrderedDict()  # by served model
        self._said: dict[Rivals, Verdict] = {}
        self._jobs: deque[_Job] = deque()
        self._prompts = self._chars = 0
        self._written = True
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="shadow", daemon=True)

    def start(self, busy: Callable[[], int] = lambda: 0) -> None:
        """Begin to score."""
        self._busy = busy
        self._thread.start()

    def close(self) -> None:
        """Stop; what waits is dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_END_S)  # a challenger that hangs holds up no end

    def ranked(self, ranked: Ranked) -> None:
        """Live prompts with the champion's forecasts. Returns at once."""
        challenger = self._challengers.of(ranked.ranker)
        with self._changed:
            beside = self._of(ranked, challenger)
            if beside is None or challenger is None or self._closing:
                return
            for request_id, forecast in zip(ranked.ids, ranked.forecasts, strict=True):
                beside.shadow.asked(request_id, forecast.score, ranked.at)
            count, chars = len(ranked.ids), sum(map(len, ranked.prompts))
            if self._prompts + count > self._config.queue or (
                self._chars + chars > self._config.chars
            ):
                beside.dropped += count
                self._lost("dropped", beside, ranked.ids)
                return
            self._prompts += count
            self._chars += chars
            if isinstance(challenger, Several) and challenger.knows(ranked.served_model):
                challenger = challenger.serving(ranked.served_model)
            self._jobs.append(_Job(beside, challenger, ranked.ids, ranked.prompts))
            self._changed.notify_all()

    def ended(self, outcomes: Sequence[Outcome]) -> None:
        """Requests that have ended, also those told of before."""
        with self._changed:
            for outcome in outcomes:
                beside = self._beside.get(outcome.served_model)
                if beside is not None:
                    beside.shadow.ended(outcome)
            if self._due():
                self._changed.notify_all()

    def rows(self) -> list[dict[str, Any]]:
        """One for each served model with a challenger at work, JSON-ready."""
        with self._changed:
            return [beside.row() for beside in self._beside.values()]

    def found(self, served_model: str, challenger: str) -> tuple[int, Comparison | None]:
        """How many pairs version ``challenger`` has, and how it compares."""
        with self._changed:
            beside = self._beside.get(served_model)
            if beside is None or beside.shadow.rivals.challenger != challenger:
                return 0, None
            return beside.shadow.pairs, beside.latest

    def _of(self, ranked: Ranked, challenger: Ranker | None) -> Beside | None:
        """Who is scored for this answer; made anew when another version serves or is tried."""
        version = ranked.version if challenger is None else str(challenger.version)
        rivals = Rivals(ranked.served_model, ranked.ranker, ranked.version, version)
        beside = self._beside.get(ranked.served_model)
        if beside is not None and beside.shadow.rivals == rivals:
            self._beside.move_to_end(ranked.served_model)
            return beside
        if beside is not None:
            del self._beside[ranked.served_model]
            self._written = False  # what is told of it is over
            self._changed.notify_all()
        if version == ranked.version:
            return None
        beside = Beside(Shadow(rivals, self._config.shadow))
        self._beside[ranked.served_model] = beside
        while len(self._beside) > _MOST:
            self._beside.popitem(last=False)
        return beside

    def _lost(self, how: str, beside: Beside, ids: Sequence[str]) -> None:
        self.counts[how] += len(ids)
        for request_id in ids:
            beside.shadow.missed(request_id)

    def _due(self) -> list[Beside]:
        return [beside for beside in self._beside.values() if beside.shadow.due]

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closing or self._jobs or self._due() or not self._written
                )
                if self._closing:
                    return
                job = self._jobs.popleft() if self._jobs else None
                due = self._due()
            try:
                if job is not None:
                    self._score(job)
                for beside in due:
                    self._compare(beside)
                if not self._written:
                    self._write()
            except Exception as error:  # the thread has to live on
                log.error("shadow scoring failed: %s", failure(error))

    def _score(self, job: _Job) -> None:
        for start in range(0, len(job.ids), _AT_ONCE):
            if not self._give_way():
                return
            ids, prompts = (part[start : start + _AT_ONCE] for part in (job.ids, job.prompts))
            began = time.perf_counter()
            try:
                scores = [forecast.score for forecast in job.ranker.forecast(prompts)]
            except Exception as error:
                log.warning("a challenger failed on %d prompts: %s", len(ids), failure(error))
                scores = []
            took = time.perf_counter() - began
            with self._changed:
                self._prompts -= len(ids)
                self._chars -= sum(map(len, prompts))
                if len(scores) != len(ids):
                    self._lost("failed", job.beside, ids)
                else:
                    self.counts["scored"] += len(ids)
                    for request_id, score in zip(ids, scores, strict=True):
                        job.beside.shadow.scored(request_id, score)
                rest = took * (1.0 / self._config.share - 1.0)
                self._changed.wait_for(lambda: self._closing, rest)

    def _give_way(self) -> bool:
        """Wait while live prompts do; false at the end."""
        with self._changed:
            while self._busy() and not self._closing:
                self._changed.wait_for(lambda: self._closing, 0.005)
            return not self._closing

    def _compare(self, beside: Beside) -> None:
        with self._changed:
            rivals, pairs = beside.shadow.rivals, beside.shadow.window()
        found = compared(rivals, pairs, self._config.shadow)
        if found is None:
            return
        now = self._clock()
        with self._changed:
            beside.latest, beside.at = found, now
            before = self._said.get(rivals, Verdict.UNCLEAR)
            news = found.verdict not in (before, Verdict.UNCLEAR)
            if news:
                self._said[rivals] = found.verdict
                while len(self._said) > _MOST:
                    del self._said[next(iter(self._said))]
            self._written = False
        if news:
            self._announce(found.entry(now, before))

    def _write(self) -> None:
        with self._changed:
            self._written = True  # or tried, when the disk is full: the next change tries again
        if self._file is not None:
            write_whole(self._file, json.dumps(self.rows(), allow_nan=False))
