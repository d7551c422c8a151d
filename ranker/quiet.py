"""Less noise from a library that logs much."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("mlflow", "alembic")
_lock = threading.Lock()
#: Levels to return to, while anybody asks for quiet; and how many do.
_before: dict[str, int] = {}
_inside = 0


@contextmanager
def quiet() -> Iterator[None]:
    """Only errors of mlflow and of its migrations: the rest is noise on a command line.

    Levels belong to the process: of several threads, the last one to leave puts them back.
    """
    global _inside
    with _lock:
        _inside += 1
        for name in _LOGGERS if _inside == 1 else ():
            _before[name] = logging.getLogger(name).level
            logging.getLogger(name).setLevel(logging.ERROR)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            for name in _LOGGERS if _inside == 0 else ():
                logging.getLogger(name).setLevel(_before[name])
