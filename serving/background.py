"""A ``shortfirst`` command as a child that stays in the background: last in line for the machine,
its own process group, gone with its parent. ``python -m serving.background PARENT COMMAND ...``
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from serving.cores import usable

_PR_SET_PDEATHSIG = 1
_NICE = 19
_LOOK_S = 0.2
#: Standard output that is read at most; the results of our commands are far smaller.
_MOST_OUTPUT = 8 << 20


@dataclass(frozen=True, slots=True)
class Ended:
    """What a child left: its status (negative: the signal that ended it) and standard output.
    ``stopped``: it did not end by itself."""

    status: int
    output: str
    stopped: bool = False


def shortfirst(arguments: Sequence[str]) -> list[str]:
    """The command line of ``shortfirst ARGUMENTS`` in the background."""
    return [sys.executable, "-m", "serving.background", str(os.getpid()), *arguments]


def run(
    command: Sequence[str],
    log: Path,
    within_s: float,
    stop: Callable[[float], bool],
    environ: Mapping[str, str] | None = None,
    grace_s: float = 10.0,
) -> Ended:
    """Run ``command`` to its end, its standard error appended to ``log``.

    ``stop(seconds)`` waits so long and says whether to give up; so does ``within_s``. Giving up is
    SIGTERM to the child's process group, and SIGKILL ``grace_s`` later. No code of ours runs
    between fork and exec: the caller may have any number of threads. It has to be the thread that
    lives as long as the child, which ends with it. Raises ``OSError`` when it cannot be started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    environ = dict(os.environ if environ is None else environ)
    environ.setdefault("OMP_NUM_THREADS", str(max(1, usable() // 2)))
    output = log.with_name(f"{log.name}.{os.getpid()}.out")
    try:
        with log.open("ab") as errors, output.open("w+b") as out:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
                env=environ,
            )
            waited, stopped = 0.0, False
            try:
                while child.poll() is None:
                    waited += _LOOK_S
                    if stop(_LOOK_S) or waited > within_s:
                        stopped = True
                        break
            finally:
                _end(child, grace_s)
            out.seek(0)
            text = out.read(_MOST_OUTPUT).decode(errors="replace")
    finally:
        output.unlink(missing_ok=True)
    return Ended(child.returncode, text, stopped)


def _end(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """The child and its own children are gone when this returns."""
    if child.poll() is None:
        _signal(child.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
    _signal(child.pid, signal.SIGKILL)
    child.wait()


def _signal(group: int, signum: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)


def main() -> None:
    """In the child."""
    parent, arguments = int(sys.argv[1]), sys.argv[2:]
    os.nice(_NICE)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before that
            os._exit(1)
    # As Ctrl-C: a run that is broken off is ended in the registry, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.argv = ["shortfirst", *arguments]
    from serving.cli import main as cli

    cli()


if __name__ == "__main__":
    main()
