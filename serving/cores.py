"""How many cores this process may use."""

from __future__ import annotations

import os


def usable() -> int:
    """Those of its affinity mask where the system has one, else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
