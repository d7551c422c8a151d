"""The rank service of the loop as a child process, and what it says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from drift.entry import Entry
from drift.history import read_history
from serving.drift_loop.config import RANKER, LoopDemoConfig
from serving.paths import HOME_VARIABLE, TRACKING_VARIABLE, Home
from serving.processes import Service, ServiceFailed, Services

_RELOAD_S = 0.5
_PATIENCE_S = 600.0
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Running:
    """``home`` holds all that it writes."""

    service: Service
    home: Home

    @property
    def target(self) -> str:
        return self.service.address("grpc")

    def history(self, *kinds: str) -> list[Entry]:
        return read_history(self.home.history, kinds=kinds)

    def wait(self, true: Callable[[], bool], what: str) -> None:
        """Raises :class:`serving.processes.ServiceFailed` when the service ends, or ``what`` does
        not happen in ten minutes."""
        until = time.monotonic() + _PATIENCE_S
        while not true():
            self.service.check()
            if time.monotonic() > until:
                raise ServiceFailed(f"{what}: not within {_PATIENCE_S:.0f} s")
            time.sleep(_LOOK_S)

    def command(self, *arguments: str) -> str:
        """Run ``shortfirst ARGUMENTS`` on the same home; its standard output. Raises
        :class:`serving.processes.ServiceFailed`."""
        done = subprocess.run(
            [sys.executable, "-m", "serving.cli", *arguments],
            env=environment(self.home), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ServiceFailed(f"shortfirst {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout


def environment(home: Home) -> dict[str, str]:
    """Of a child that keeps to ``home``."""
    return {**os.environ, HOME_VARIABLE: str(home.root), TRACKING_VARIABLE: ""}


def serve(children: Services, home: Home, config: LoopDemoConfig, training: Path | None) -> Running:
    """Start it with retraining switched on; return when it answers."""
    options = ["--retrain-config", str(training)] if training is not None else []
    started = children.launch(
        "rank-service",
        [
            "serve", "--ranker", f"models:/{RANKER}@champion",
            "--port", "0", "--metrics-port", "0", "--reload-seconds", f"{_RELOAD_S:g}",
            "--retain-prompts", "1", "--retrain", *options,
            "--retrain-gather", str(config.gather), "--retrain-shadow", str(config.shadow),
        ],
        environment(home),
    )  # fmt: skip
    return Running(started.wait(), home)
