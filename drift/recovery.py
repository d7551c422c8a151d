"""A monitor where a restart left it, and the files of what it had learned."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from drift.baselines_file import load_baselines
from drift.config import MonitorConfig
from drift.events import Event
from drift.monitor import Monitor
from drift.outcomes import OutcomeStore
from drift.reference import load_references

log = logging.getLogger(__name__)

_OLD = "no caution is taken there until another ranker version comes"

#: Stored outcomes that are weighed again at a restart.
LAST = 5_000


def references_path(outcomes: Path) -> Path:
    """Where the references of a store of outcomes are kept: beside it."""
    return outcomes.with_name(outcomes.name + ".references.json")


def baselines_path(outcomes: Path) -> Path:
    """Where the distributions that go with the references are kept: beside them."""
    return outcomes.with_name(outcomes.name + ".baselines.json")


def recover(
    store: OutcomeStore,
    config: MonitorConfig | None = None,
    last: int = LAST,
    on_event: Callable[[Event], None] | None = None,
    learned: bool = False,
) -> Monitor:
    """A monitor that has weighed the ``last`` stored outcomes again, its references learned on the
    way, in this thread.

    With more stored than that, it measures against the references that were saved when they were
    learned: the oldest of the last outcomes may already have drifted. With ``learned`` it does in
    any case: quick, for who only wants to see where things stand. ``on_event`` gets the events of
    the replay; those that a running service had are in its log.
    """
    references, baselines = {}, {}
    if learned or store.ever > last:
        references = load_references(references_path(store.path))
        baselines = load_baselines(baselines_path(store.path))
        if old := sum(reference.early is None for reference in references.values()):
            log.info("%d references know nothing of outcomes as they end: %s", old, _OLD)
    monitor = Monitor(config, references, baselines)
    for outcome in store.by_report(last):
        for event in monitor.update(outcome):
            if on_event is not None:
                on_event(event)
    return monitor
