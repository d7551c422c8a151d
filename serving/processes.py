"""Child processes that never outlive their parent, and that say when they are ready."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1


class ServiceFailed(RuntimeError):
    """A child ended, or said nothing, before it was ready. The message ends with its last lines."""


@dataclass(frozen=True, slots=True)
class Service:
    """A running child and the addresses it wrote to its ready file."""

    name: str
    process: subprocess.Popen[bytes]
    addresses: dict[str, Any]
    log: Path

    def address(self, key: str) -> str:
        return str(self.addresses[key])

    @property
    def over(self) -> bool:
        """Whether the child has ended; what it left of its own children ends then, too."""
        if self.process.returncode is None and self.process.poll() is not None:
            self._signal_group(signal.SIGKILL)
        return self.process.returncode is not None

    def settle(self, timeout_s: float) -> None:
        """Wait for the child to end, for ``timeout_s`` at most."""
        deadline = time.monotonic() + timeout_s
        while not self.over and time.monotonic() < deadline:
            time.sleep(0.05)

    def check(self) -> None:
        """Raise :class:`ServiceFailed` when the child has ended."""
        if self.over:
            code = self.process.returncode
            raise ServiceFailed(_explain(self.name, f"ended with status {code}", self.log))

    def pause(self) -> None:
        """Stop the child and its own children where they are (SIGSTOP): they take no time. Returns
        when the child stands still, or has ended."""
        self._signal_group(signal.SIGSTOP)
        with contextlib.suppress(ChildProcessError):  # its end was seen before
            # WNOWAIT: an end stays to be seen by whoever asks for the status.
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let them go on."""
        self._signal_group(signal.SIGCONT)

    def stop(self, grace_s: float = 10.0) -> None:
        """SIGTERM, then SIGKILL after ``grace_s``; returns when the child is gone, and with it what
        is left of its own children."""
        if self.over:
            return
        self.process.terminate()
        self.resume()  # a paused one would not hear it
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(grace_s)
        self._signal_group(signal.SIGKILL)
        self.process.wait()

    def _signal_group(self, signum: signal.Signals) -> None:
        """Each child leads a process group. Never later than when its end is seen: its number may
        then become somebody else's."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signum)


class Services:
    """Starts children and stops all of them on exit, whatever happened in between."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[Service] = []
        self._interrupted = False
        self._forking = False

    def launch(
        self,
        name: str,
        arguments: Sequence[str],
        environ: Mapping[str, str] | None = None,
        cores: Collection[int] = (),
    ) -> Pending:
        """Start ``shortfirst <arguments>``; several may start side by side. The rest as
        :meth:`start` has it."""
        ready = self._folder / f"{name}.ready.json"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "serving.cli", *arguments, "--ready-file", str(ready)]
        return Pending(self.start(name, command, environ, cores), ready, self)

    def start(
        self,
        name: str,
        command: Sequence[str],
        environ: Mapping[str, str] | None = None,
        cores: Collection[int] = (),
    ) -> Service:
        """Start any command; its output goes to ``<name>.log``.

        ``environ`` replaces this process's environment, ``cores`` are those that it may run on,
        where the system can tell a process. Raises ``OSError`` when it cannot be started.
        """
        log = self._folder / f"{name}.log"
        self._forking = True
        try:
            with log.open("wb") as out:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    # A terminal's Ctrl-C goes to the parent alone, which stops children in order.
                    start_new_session=True,
                    env=environ,
                    preexec_fn=_first(os.getpid(), cores) if sys.platform == "linux" else None,
                )
            service = Service(name, process, {}, log)
            self._running.append(service)
        finally:
            self._forking = False
        self.check_interrupted()
        return service

    def replace(self, old: Service, new: Service) -> None:
        """``new`` is ``old`` with its addresses known."""
        self._running[self._running.index(old)] = new

    def interrupt(self, signum: int = 0, frame: object = None) -> None:
        """Signal handler. Raises ``KeyboardInterrupt``, but while a child is being started only
        afterwards: raised inside a fork it is printed and dropped, or the child is forgotten."""
        self._interrupted = True
        if not self._forking:
            raise KeyboardInterrupt

    def check_interrupted(self) -> None:
        if self._interrupted:
            raise KeyboardInterrupt

    def end(self, service: Service) -> None:
        """Stop one child."""
        service.stop()
        self._running.remove(service)

    def stop(self) -> None:
        """Stop every child, the last started first, one after the other: an engine may still have
        outcomes to deliver to the rank service that was started before it."""
        while self._running:
            self._running.pop().stop()

    def wait(self, replaced: Callable[[Service], bool] = lambda service: False) -> None:
        """Wait until a child ends by itself, which raises :class:`ServiceFailed`.

        ``replaced`` is asked first: true means that it has launched another, which then takes
        the place of the one that ended.
        """
        while True:
            self.check_interrupted()
            for place, service in enumerate(list(self._running)):
                if service.over and replaced(service):
                    self._running[place] = self._running.pop()
                else:
                    service.check()
            time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class Pending:
    """A child that was started and may not be ready yet."""

    service: Service
    ready: Path
    services: Services

    def wait(self, timeout_s: float = 120.0) -> Service:
        """Return once the ready file is there.

        Raises :class:`ServiceFailed` when the child ends first or ``timeout_s`` passes.
        """
        deadline = time.monotonic() + timeout_s
        while not self.ready.exists():
            self.services.check_interrupted()
            self.service.check()
            if time.monotonic() > deadline:
                raise ServiceFailed(
                    _explain(
                        self.service.name, f"not ready after {timeout_s:.0f} s", self.service.log
                    )
                )
            time.sleep(0.05)
        started = Service(
            self.service.name,
            self.service.process,
            json.loads(self.ready.read_text(encoding="utf-8")),
            self.service.log,
        )
        self.services.replace(self.service, started)
        return started


@contextlib.contextmanager
def services(folder: Path) -> Iterator[Services]:
    """Children that stop when the block ends; SIGTERM and SIGHUP end the block like Ctrl-C does."""
    folder.mkdir(parents=True, exist_ok=True)
    running = Services(folder)
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {signum: signal.signal(signum, running.interrupt) for signum in signals}
    try:
        yield running
    finally:
        # A second Ctrl-C must not leave a child behind.
        for signum in signals:
            signal.signal(signum, signal.SIG_IGN)
        running.stop()
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _first(parent: int, cores: Collection[int]) -> Callable[[], None]:
    """What a child does before its command: end with its parent, and stay on its cores."""
    libc = ctypes.CDLL(None)

    def set_up() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died between fork and prctl
            os._exit(1)
        if cores:
            os.sched_setaffinity(0, cores)

    return set_up


def _explain(name: str, what: str, log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    tail = "\n".join(f"  | {line}" for line in lines[-15:])
    return f"{name} {what}; its log {log} ends:\n{tail}"
