"""What is monitored together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """One served model and one ranker version: scores compare only within a version.

    ``ranker`` and ``version`` are empty for requests that came before any ranker was seen.
    """

    served_model: str
    ranker: str
    version: str
