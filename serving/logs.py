"""Logging without prompts: one line an event to standard error, errors by type and place."""

from __future__ import annotations

import logging
import sys
import traceback


def configure(level: str = "info") -> None:
    """Log to standard error from ``level`` up. Raises ``ValueError`` for an unknown level."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log_level must be debug, info, warning or error, got {level!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for ours in ("serving", "engine", "drift", "ranker", "training"):
        logging.getLogger(ours).setLevel(number)


def failure(error: BaseException) -> str:
    """An error's type and the frames that raised it, without its message.

    Messages of foreign libraries may quote what they were given, and that may be a prompt.
    """
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    places = " <- ".join(f"{f.filename}:{f.lineno} {f.name}" for f in reversed(frames))
    return f"{type(error).__name__} at {places or 'an unknown place'}"
