"""MLflow's own servers as other people start them: real processes on free ports."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Both: which comes first depends on the number of workers, and only then is it listened.
_READY = ("Application startup complete", "Uvicorn running on")


@contextmanager
def mlflow(arguments: list[str], log: Path, **environ: str) -> Iterator[str]:
    """The address of ``mlflow ARGUMENTS --port N`` once it answers; it is gone afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", *arguments, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=log.parent,
        start_new_session=True,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # more processes, for what we don't use
            **environ,
        },
    )
    told, ready, missing = threading.Event(), threading.Event(), set(_READY)

    def follow() -> None:
        with process.stdout, log.open("w", buffering=1) as file:
            for line in process.stdout:
                file.write(line)
                missing.difference_update(part for part in _READY if part in line)
                if not missing:
                    ready.set()
                    told.set()
        told.set()

    threading.Thread(target=follow, daemon=True).start()
    try:
        told.wait(250)
        assert ready.is_set(), log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
