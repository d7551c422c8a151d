"""One run, written while it happens: what was seen before a crash stays."""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from mlflow import MlflowClient
from mlflow.entities import LoggedModelStatus, Metric, RunTag
from mlflow.exceptions import MlflowException

from ranker.length_ranker import LengthRanker
from ranker.quiet import quiet
from ranker.registry import flavour
from ranker.registry.connection import explained
from ranker.registry.system_metrics import SystemMetrics

#: Tags of a run: the model that it made, and the card as mlflow's pages show it.
MODEL_ID, NOTE = "shortfirst.model_id", "mlflow.note.content"
_BATCH = 900  # MLflow takes at most 1,000 metrics a call
_NOTE_LENGTH = 5000
_FLUSH_S, _SAMPLE_S = 1.0, 10.0
_LONGEST_PAUSE_S = 300.0
_scratch = partial(tempfile.TemporaryDirectory, prefix="shortfirst-")


class RunLog:
    """A run under way, made by :meth:`ranker.registry.Registry.start`. A context manager.

    Metrics are written about once a second. When that fails, because a server is away for a
    while, they are kept and tried again ever more rarely; training goes on. Leaving the context
    ends the run as ``FINISHED``, ``KILLED`` (Ctrl-C, exit) or ``FAILED`` (any other exception).
    Safe to call from several threads. ``clock`` gives Unix seconds.
    """

    def __init__(
        self,
        client: MlflowClient,
        experiment_id: str,
        run_id: str,
        *,
        clock: Callable[[], float] = time.time,
        flush_s: float = _FLUSH_S,
        sample_s: float = _SAMPLE_S,
    ) -> None:
        self.run_id = run_id
        self._client, self._experiment_id = client, experiment_id
        self._clock, self._flush_s = clock, flush_s
        self._lock = threading.Lock()
        self._waiting: list[Metric] = []
        self._pause = flush_s
        self._due = clock() + flush_s
        self._system = SystemMetrics(self._put, sample_s)

    # -- numbers ------------------------------------------------------------------------------

    def step(self, name: str, value: float, step: int) -> None:
        """One point of the curve ``name``."""
        self._put({name: value}, step)

    def metrics(self, values: Mapping[str, float]) -> None:
        """Numbers of the whole run. Those that are not defined (NaN) are left out."""
        self._put({key: value for key, value in values.items() if not math.isnan(value)}, 0)

    def tags(self, values: Mapping[str, str]) -> None:
        """Set tags."""
        with explained(f"run {self.run_id}"):
            tags = [RunTag(key, value) for key, value in values.items()]
            self._client.log_batch(self.run_id, tags=tags)

    def _put(self, values: Mapping[str, float], step: int) -> None:
        now = self._clock()
        with self._lock:
            self._waiting += [
                Metric(key, float(value), int(now * 1000), step) for key, value in values.items()
            ]
        if now < self._due:
            return
        try:
            self._flush()
            self._pause = self._flush_s
        except (MlflowException, OSError):
            self._pause = min(_LONGEST_PAUSE_S, 2.0 * max(self._pause, self._clock() - now))
        self._due = self._clock() + self._pause

    def _flush(self) -> None:
        with self._lock, quiet():
            while self._waiting:
                self._client.log_batch(self.run_id, metrics=self._waiting[:_BATCH])
                del self._waiting[:_BATCH]

    # -- files --------------------------------------------------------------------------------

    def file(self, path: str, content: bytes) -> None:
        """Keep ``content`` as the artifact ``path``, as in ``plots/calibration.png``."""
        where = PurePosixPath(path)
        inside = str(where.parent) if where.parent.parts else None
        with explained(f"run {self.run_id}: {path}"), _scratch() as folder:
            local = Path(folder) / where.name
            local.write_bytes(content)
            self._client.log_artifact(self.run_id, str(local), inside)

    def model(self, ranker: LengthRanker, card: str) -> None:
        """Keep the ranker as a model that other tools can load too, with its card."""
        with explained(f"run {self.run_id}: model"), _scratch() as folder:
            saved = flavour.save(ranker, Path(folder), card)
            made = self._client.create_logged_model(
                self._experiment_id, name="ranker", source_run_id=self.run_id, model_type="ranker"
            )
            self._client.log_model_artifacts(made.model_id, str(saved))
            self._client.finalize_logged_model(made.model_id, LoggedModelStatus.READY)
        self.file("README.md", card.encode())
        self.tags({MODEL_ID: made.model_id, NOTE: card[:_NOTE_LENGTH]})

    # -- beginning and end --------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._system.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._system.stop()
        if kind is None:
            self._end("FINISHED")
            return
        # What went wrong first is the error to see, not that it could not be written down.
        with suppress(Exception):
            self._end("FAILED" if issubclass(kind, Exception) else "KILLED")

    def _end(self, status: str) -> None:
        with explained(f"run {self.run_id}"):
            try:
                self._flush()
            finally:
                self._client.set_terminated(self.run_id, status=status)
