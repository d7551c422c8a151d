"""What is kept of one training run, in words that need no tracking server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """One part of the data: what it was for, where it came from, and its numbers.

    ``context`` is ``training``, ``validation`` or ``test``. ``columns`` holds numbers only, one
    sequence per column: a tracking store is no place for prompts.
    """

    name: str
    context: str
    source: str
    digest: str
    columns: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run. ``curves`` are metrics by step, from step 0."""

    experiment: str
    name: str
    params: Mapping[str, object] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    datasets: tuple[DatasetRecord, ...] = ()
