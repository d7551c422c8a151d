"""Numbers that somebody may want to see, under the names that Prometheus knows them by."""

from __future__ import annotations

from typing import NamedTuple


class Reading(NamedTuple):
    """``labels``: pairs of name and value. All readings of one name have the same label names."""

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


class Distribution(NamedTuple):
    """A histogram. ``counts[i]``: values at most ``bounds[i]`` and above the bound before it; one
    more for those above all. ``total``: their sum."""

    name: str
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float
