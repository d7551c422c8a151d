"""What one test does to logging must not keep the next from being heard."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

_OURS = ("serving", "engine", "drift", "ranker", "training")


@pytest.fixture(autouse=True)
def audible() -> Iterator[None]:
    """A command that a test runs in its own process sets levels and the handler of all logging, and
    evidently's migrations switch loggers off. Which tests come after is chance when there are two
    processes."""
    root = logging.getLogger()
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.disabled = False
    before = {name: logging.getLogger(name).level for name in ("", *_OURS)}
    handlers = list(root.handlers)
    yield
    root.handlers[:] = handlers
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)
