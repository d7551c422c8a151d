"""A number that somebody may want to see, under the name that Prometheus knows it by."""

from __future__ import annotations

from typing import NamedTuple


class Reading(NamedTuple):
    """``labels``: pairs of name and value. All readings of one name have the same label names."""

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()
