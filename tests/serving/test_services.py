"""Children of a command: none is forgotten, whenever the interrupt comes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from serving import processes
from serving.processes import ServiceFailed, services


def test_an_interrupt_while_a_child_is_started_stops_that_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(command, **options):
        os.kill(os.getpid(), signal.SIGTERM)  # between the decision and the child's existence
        started.append(real(["sleep", "600"], **options))
        os.kill(os.getpid(), signal.SIGINT)  # and before anybody has written it down
        return started[-1]

    monkeypatch.setattr(processes.subprocess, "Popen", popen)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), services(tmp_path) as running:
        running.launch("child", [])
    assert started[0].poll() == -signal.SIGTERM
    assert signal.getsignal(signal.SIGINT) is before


def test_a_child_that_ends_before_it_is_ready_is_explained_by_its_last_lines(tmp_path: Path):
    with services(tmp_path) as running, pytest.raises(ServiceFailed) as failed:
        running.launch("child", ["serve", "--reload-seconds", "-1"]).wait()
    assert "child ended with status 2" in str(failed.value)
    assert "reload_s must be" in str(failed.value)
