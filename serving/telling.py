"""The rank service's sink of outcomes, with everybody who hears of what its monitor notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from drift.announce import Announcer
from drift.config import MonitorConfig
from drift.entry import MONITOR, Entry
from drift.events import Event, EventLog
from drift.history import History
from drift.keeping import KeepConfig
from drift.monitor import Monitor
from drift.notify.config import Webhook
from drift.notify.notifier import Notifier
from drift.outcomes import OutcomeStore
from drift.recovery import recover
from drift.sink import MonitoredStore
from drift.tell import Teller
from drift.worker import Worker


@dataclass(frozen=True, slots=True)
class TellingConfig:
    """Files, made when missing: ``outcomes`` and ``history`` are SQLite, ``events`` JSON lines.
    ``close_s``: how long the end waits for webhooks. ``keep``: how long outcomes are kept."""

    outcomes: Path
    events: Path
    history: Path
    webhooks: tuple[Webhook, ...] = ()
    monitor: MonitorConfig = field(default_factory=MonitorConfig)
    close_s: float = 5.0
    keep: KeepConfig = field(default_factory=KeepConfig)

    def __post_init__(self) -> None:
        if not 0.0 <= self.close_s < float("inf"):
            raise ValueError(f"close_s must be >= 0 and finite, got {self.close_s}")


@dataclass(frozen=True, slots=True)
class Telling:
    """What runs: the sink, who tells of it, the webhooks, and how others than the monitor tell
    what they did."""

    sink: MonitoredStore
    teller: Teller
    notifier: Notifier
    announce: Announcer


@contextmanager
def telling(
    config: TellingConfig, environ: Mapping[str, str], clock: Callable[[], float], rng: Random
) -> Iterator[Telling]:
    """Open all of it, where a restart left it; at the end, weigh and send what waits.

    ``clock`` gives Unix seconds. Raises ``ValueError`` for a file that is something else, or a
    secret that ``environ`` lacks.
    """
    with ExitStack() as undo:
        history = History(config.history)
        undo.callback(history.close)
        store = OutcomeStore(config.outcomes)
        undo.callback(store.close)
        replayed: list[Event] = []
        monitor = recover(store, config.monitor, on_event=replayed.append)
        replayed += monitor.stale(clock())
        notifier = Notifier(config.webhooks, environ, clock, rng)
        undo.callback(notifier.close, config.close_s)
        teller = Teller(history, notifier, clock)
        events = EventLog(config.events)
        work = Worker()
        undo.callback(work.close)
        sink = MonitoredStore(store, monitor, events, clock, teller, work=work, keep=config.keep)
        undo.callback(sink.close)  # first of all: its last events are told
        teller.resume(replayed, _standing(monitor))
        yield Telling(sink, teller, notifier, Announcer(events, teller, clock))


def _standing(monitor: Monitor) -> list[Entry]:
    """Where each slice of the ranker version that a served model uses now stands."""
    wholes = [s for s in monitor.snapshots() if s.current]
    parts = [part for whole in wholes for part in monitor.slices(whole.key.served_model)]
    return [
        Entry(
            at=snapshot.cohort.last_arrival,
            kind="state",
            actor=MONITOR,
            served_model=snapshot.key.served_model,
            before="",
            after=str(snapshot.state),
            ranker=snapshot.key.ranker,
            version=snapshot.key.version,
            lane=snapshot.key.lane,
            tenant=snapshot.key.tenant,
            advice=snapshot.state.advice,
        )
        for snapshot in (*wholes, *parts)
    ]


def described(webhooks: Sequence[Webhook]) -> str:
    """Names and kinds, for the log: addresses may be secrets."""
    return ", ".join(f"{w.name} ({w.kind}, from {w.level})" for w in webhooks)
