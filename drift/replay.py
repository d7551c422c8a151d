"""A stored stream looked at again: what the command line and the report show."""

from __future__ import annotations

from dataclasses import dataclass

from drift.config import MonitorConfig
from drift.efficiency import ReplayConfig, efficiency
from drift.events import Event
from drift.monitor import Monitor, Snapshot
from drift.outcomes import OutcomeStore
from drift.recovery import recover
from drift.reference import Reference
from drift.report.data import DriftSection, EfficiencyRow, Fact, ReportData
from drift.states import State
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class Replayed:
    """One served model: where it stands, and the outcomes its reference and its window hold."""

    snapshot: Snapshot
    section: DriftSection
    before: tuple[Outcome, ...]
    window: tuple[Outcome, ...]


def replay(
    store: OutcomeStore,
    events: tuple[Event, ...] = (),
    config: MonitorConfig | None = None,
    last: int = 5_000,
) -> list[Replayed]:
    """Weigh the ``last`` outcomes again, what was held back for order included.

    Without ``events`` (the log of the service), those that the replay itself gives are used.
    """
    seen: list[Event] = []
    monitor = recover(store, config, last, seen.append)
    seen += monitor.flush()
    return [
        _replayed(store, monitor, snapshot, events or tuple(seen), last)
        for snapshot in monitor.snapshots()
        if snapshot.current
    ]


def _replayed(
    store: OutcomeStore,
    monitor: Monitor,
    snapshot: Snapshot,
    events: tuple[Event, ...],
    last: int,
) -> Replayed:
    key = snapshot.key
    own = [
        o
        for o in store.by_arrival(key.served_model, last)
        if o.forecast is not None
        and (o.forecast.ranker, o.forecast.version) == (key.ranker, key.version)
    ]
    window = monitor.recent(key)
    learned = snapshot.reference.outcomes if snapshot.reference is not None else len(own)
    section = DriftSection.of(monitor, key.served_model, events)
    return Replayed(snapshot, section, tuple(own[:learned]), window)


def report_data(replayed: Replayed, created: str, config: ReplayConfig | None = None) -> ReportData:
    """The page about one served model's forecasts; no policy was run, so none is compared."""
    key, reference = replayed.snapshot.key, replayed.snapshot.reference
    rows = []
    for label, outcomes in (("reference", replayed.before), ("window", replayed.window)):
        worth = efficiency(outcomes, config)
        if worth is not None:
            tau = _tau(reference) if label == "reference" else replayed.snapshot.cohort.tau.value
            rows.append(EfficiencyRow(label, worth.e2el, worth.per_token, tau))
    cohort = replayed.snapshot.cohort
    return ReportData(
        title=f"Forecasts for {key.served_model}",
        subtitle=f"ranker {key.ranker or 'unknown'} {key.version}".strip(),
        created=created,
        outcomes=replayed.window if replayed.snapshot.state is State.OK else replayed.before,
        drift=(replayed.section,),
        efficiency=tuple(rows),
        facts=(
            Fact(
                f"{replayed.snapshot.outcomes:,}",
                "Outcomes weighed",
                _share(cohort.scored, cohort.outcomes),
            ),
        ),
    )


def _tau(reference: Reference | None) -> float:
    return reference.tau.value if reference is not None else float("nan")


def _share(scored: int, outcomes: int) -> str:
    return f"{scored:,} of the last {outcomes:,} had a forecast"
