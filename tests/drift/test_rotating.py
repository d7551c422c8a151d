"""Lines that survive rotation, crashes and company."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift.rotating import RotatingFile, read_parts


def _lines(path):
    return [line for _, part in read_parts(path) for line in part.decode().splitlines()]


def test_the_oldest_go_and_the_rest_keeps_its_order(tmp_path):
    path = tmp_path / "a [1]*" / "log.jsonl"
    file = RotatingFile(path, max_bytes=30, keep=2)
    for i in range(100):
        file.append(f"{i:09d}\n".encode())
    lines = [int(line) for line in _lines(path)]
    assert lines == list(range(lines[0], 100))
    assert 60 <= 10 * len(lines) <= 3 * 30
    assert {p.name for p in path.parent.iterdir()} <= {"log.jsonl", "log.jsonl.1", "log.jsonl.2"}


@settings(deadline=None, max_examples=40)
@given(crash=st.integers(0, 3), appends=st.integers(1, 12))
def test_a_crash_between_two_renames_loses_nothing(tmp_path_factory, crash, appends):
    path = tmp_path_factory.mktemp("log") / "log"
    file = RotatingFile(path, max_bytes=1, keep=4)
    for i in range(3):
        file.append(f"{i}\n".encode())
    replace, done = os.replace, 0

    def crashing(source, target):
        nonlocal done
        if done >= crash:
            raise KeyboardInterrupt
        done += 1
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", crashing)
        if crash < 3:  # a fourth file takes four renames, of which none or some were made
            with pytest.raises(KeyboardInterrupt):
                file.append(b"3\n")
    assert _lines(path) == ["0", "1", "2", "3"][: 4 if crash < 3 else 3]
    for i in range(appends):
        file.append(f"{10 + i}\n".encode())
    lines = _lines(path)
    assert lines == sorted(lines, key=int)
    assert lines[-1] == str(9 + appends)


def test_two_processes_rotate_together(tmp_path):
    path = tmp_path / "log"
    code = (
        "import sys; from pathlib import Path; from drift.rotating import RotatingFile\n"
        "file = RotatingFile(Path(sys.argv[1]), max_bytes=2000, keep=50)\n"
        "for i in range(300): file.append(f'{sys.argv[2]} {i}\\n'.encode())"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in ("a", "b")
    ]
    assert [one.wait(120) for one in running] == [0, 0]
    lines = [line.split() for line in _lines(path)]
    for name in ("a", "b"):
        assert [int(i) for who, i in lines if who == name] == list(range(300))


def test_a_rotation_while_reading_neither_hides_nor_doubles(tmp_path, monkeypatch):
    path = tmp_path / "log"
    file = RotatingFile(path, max_bytes=4, keep=5)
    file.append(b"1\n")
    opened = os.open

    def rotating(name, *rest, **options):
        handle = opened(name, *rest, **options)
        if name == path and rest == (os.O_RDONLY,):
            monkeypatch.setattr(os, "open", opened)
            file.append(b"2\n")  # full: it gets the next number while the reader has it open
        return handle

    monkeypatch.setattr(os, "open", rotating)
    assert _lines(path) == ["1", "2"]
    assert (tmp_path / "log.1").exists()


def test_sizes_are_checked(tmp_path):
    for bad in ({"max_bytes": 0}, {"keep": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            RotatingFile(tmp_path / "log", **bad)
