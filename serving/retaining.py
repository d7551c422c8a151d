"""Prompts that are ranked, kept for retraining while the operator wants it; else none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from drift.prompts import Prompt, RetentionConfig
from drift.retention import Retention
from drift.retention_metrics import RetentionCollector
from serving.ranked import Consumer, Ranked


@contextmanager
def retaining(
    path: Path,
    config: RetentionConfig | None,
    registry: CollectorRegistry,
    clock: Callable[[], float],
) -> Iterator[tuple[Consumer, ...]]:
    """Who is to be told of what was ranked: with ``config``, the store of prompts at ``path``; else
    nobody, and no file is made or opened.

    What waits at the end is written. Raises ``ValueError`` when ``path`` is something else.
    """
    if config is None:
        yield ()
        return
    retention = Retention(path, config, clock)
    try:
        registry.register(RetentionCollector(retention))
        yield (lambda ranked: retention.offer(_prompts(ranked)),)
    finally:
        retention.close()


def _prompts(ranked: Ranked) -> list[Prompt]:
    return [
        Prompt(name, ranked.served_model, text, ranked.at, ranked.tenant)
        for name, text in zip(ranked.ids, ranked.prompts, strict=True)
    ]
