"""The engine that ``shortfirst label`` asks when it is given no endpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from serving.processes import services


@dataclass(frozen=True, slots=True)
class LabelEngine:
    """What to start: the options of ``shortfirst engine`` of the same names."""

    model: str
    dtype: str = "auto"
    threads: int = 0
    max_num_seqs: int = 16
    kv_gib: float = 0.0

    @contextlib.contextmanager
    def started(self, folder: Path, timeout_s: float = 600.0) -> Iterator[str]:
        """Address of its API, ending in ``/v1``; it ends with the block. Its log is in ``folder``.

        First come, first served, and nobody is told of the lengths: no forecast, no report.
        Raises ``ServiceFailed`` when it does not start.
        """
        arguments = [
            "engine", "--model", self.model, "--policy", "fcfs", "--no-report",
            "--dtype", self.dtype, "--threads", str(self.threads),
            "--max-num-seqs", str(self.max_num_seqs), "--kv-gib", str(self.kv_gib),
            "--http-port", "0", "--grpc-port", "0", "--drain-seconds", "1",
            "--log-level", "warning",
        ]  # fmt: skip
        with services(folder) as children:
            engine = children.launch("engine", arguments).wait(timeout_s)
            yield f"{engine.address('http')}/v1"
