"""What a process holds that belongs to requests: counted, so that before and after compare."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from engine.core.request import Request
from engine.live import Live
from engine.sequence import Sequence
from engine.stream import Stream
from serving.generation import Account, Generation
from serving.story import Story

#: Of each there is one for every request that has not ended, and none for those that have.
_PER_REQUEST = (Request, Live, Sequence, Stream, Account, Generation, Story)


#: gRPC keeps the last error that it sent, and with it the frames that raised it.
_LAST_ERROR = 1


@dataclass(frozen=True, slots=True)
class Residue:
    """``objects``: by class, of all that the interpreter can reach or not. ``readings``: of the
    engine's own metrics that are 0 when it is idle."""

    tasks: int
    threads: int
    files: int
    objects: dict[str, int]
    readings: dict[str, float]

    def beyond(self, before: Residue) -> list[str]:
        """What there is more of than ``before``, or that should be 0, in words."""
        found = [
            f"{name}: {getattr(before, name)} before, {getattr(self, name)} after"
            for name in ("tasks", "threads", "files")
            if getattr(self, name) > getattr(before, name)
        ]
        found += [
            f"{name} objects: {count}"
            for name, count in self.objects.items()
            if count > _LAST_ERROR
        ]
        return found + [f"{name}: {value:g}" for name, value in self.readings.items() if value]


def per_request() -> Counter[str]:
    """Objects in this process of which every request has one, by class."""
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in _PER_REQUEST)


def residue(readings: dict[str, float], elsewhere: Counter[str]) -> Residue:
    """Now, in this process; to be called from the server's event loop. ``elsewhere``: objects that
    were there before the server, and are somebody else's."""
    names = [kind.__name__ for kind in _PER_REQUEST]
    counts = per_request() - elsewhere
    return Residue(
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        files=_files(),
        objects={name: counts[name] for name in names},
        readings=readings,
    )


def resident_mib() -> float:
    """Resident memory of this process; where the system does not tell, its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 2**20
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _files() -> int:
    """Open descriptors, sockets too; 0 where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
