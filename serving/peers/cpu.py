"""What Linux's ``/proc`` tells of the processor and of the time that processes took on it."""

from __future__ import annotations

import os
from pathlib import Path


def group_seconds(group: int, proc: Path = Path("/proc")) -> float:
    """Seconds that the processes of ``group`` have computed so far, user and system, all threads.

    What has ended is counted where its parent waited for it. NaN where there is no ``/proc``.
    """
    if not proc.is_dir():
        return float("nan")
    ticks = 0
    for entry in proc.iterdir():
        if entry.name.isdigit():
            ticks += _ticks(entry / "stat", group)
    return ticks / os.sysconf("SC_CLK_TCK")


def _ticks(stat: Path, group: int) -> int:
    try:
        # The name, in parentheses, may hold anything; numbers follow the last one (man 5 proc).
        fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return 0
    return sum(map(int, fields[11:15])) if int(fields[2]) == group else 0


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """As the system names it."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown processor")
