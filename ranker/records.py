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
    """What is known of a run when it starts. Metrics, files and the ranker come while it runs."""

    experiment: str
    name: str
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    datasets: tuple[DatasetRecord, ...] = ()
