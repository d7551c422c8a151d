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
from collections.abc import Callable, Iterator, Sequence
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

    def check(self) -> None:
        """Raise :class:`ServiceFailed` when the child has ended."""
        if (code := self.process.poll()) is not None:
            raise ServiceFailed(_explain(self.name, f"ended with status {code}", self.log))

    def stop(self, grace_s: float = 10.0) -> None:
        """SIGTERM, then SIGKILL after ``grace_s``; returns when the child is gone."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class Services:
    """Starts children and stops all of them on exit, whatever happened in between."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[Service] = []
        self._interrupted = False
        self._forking = False

    def launch(self, name: str, arguments: Sequence[str]) -> Pending:
        """Start ``shortfirst <arguments>``; several may start side by side."""
        ready, log = self._folder / f"{name}.ready.json", self._folder / f"{name}.log"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "serving.cli", *arguments, "--ready-file", str(ready)]
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
                    preexec_fn=_die_with_parent(os.getpid()) if sys.platform == "linux" else None,
                )
            service = Service(name, process, {}, log)
            self._running.append(service)
        finally:
            self._forking = False
        self.check_interrupted()
        return Pending(service, ready, self)

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
                if service.process.poll() is not None and replaced(service):
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


def _die_with_parent(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None)

    def set_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died between fork and prctl
            os._exit(1)

    return set_signal


def _explain(name: str, what: str, log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    tail = "\n".join(f"  | {line}" for line in lines[-15:])
    return f"{name} {what}; its log {log} ends:\n{tail}"
