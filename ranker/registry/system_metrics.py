"""What a run takes of the machine, under the names that MLflow's own pages show."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import psutil
from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor

_MEGABYTE = 1e6
_MONITORS: tuple[Any, ...] = (CPUMonitor, GPUMonitor)  # mlflow gives them no types


class SystemMetrics:
    """Samples at the start, each ``every_s`` seconds and at the end, handed to ``put``.

    ``put(values, number of the sample)`` is called from a thread of its own in between. MLflow's
    monitor would write nothing of a run shorter than its interval, and nothing of one process.
    """

    def __init__(self, put: Callable[[Mapping[str, float], int], None], every_s: float) -> None:
        self._put, self._every_s, self._samples = put, every_s, 0
        self._process = psutil.Process()
        self._monitors: list[Any] = []
        for kind in _MONITORS:
            with suppress(ImportError, RuntimeError):  # no NVIDIA device, or nothing to ask it with
                self._monitors.append(kind())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="system metrics", daemon=True)

    def start(self) -> None:
        """Take the first sample and go on taking them."""
        psutil.cpu_percent()  # the first call of a process has nothing to compare with
        self._sample()
        self._thread.start()

    def stop(self) -> None:
        """Take the last sample; none follows."""
        self._ended.set()
        self._thread.join()
        self._sample()

    def _watch(self) -> None:
        while not self._ended.wait(self._every_s):
            self._sample()

    def _sample(self) -> None:
        values = {"process_memory_megabytes": self._process.memory_info().rss / _MEGABYTE}
        for monitor in self._monitors:
            monitor.collect_metrics()
            values |= monitor.aggregate_metrics()
            monitor.clear_metrics()
        self._put({f"system/{name}": value for name, value in values.items()}, self._samples)
        self._samples += 1
