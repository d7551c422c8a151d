"""Where every series of a store of outcomes stands, its slices included: what ``status`` shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drift.acting.config import ActConfig
from drift.acting.standing import standings
from drift.acting.trust import Trust
from drift.config import MonitorConfig
from drift.harm import lost
from drift.key import Key
from drift.monitor import Monitor, Snapshot
from drift.outcomes import OutcomeStore
from drift.recovery import recover
from drift.states import State
from drift.valuer import Turn, ValueConfig, Valuer
from drift.values_file import load_values, values_path
from ranker.types import Outcome


def standing(
    store: OutcomeStore,
    config: MonitorConfig | None = None,
    last: int = 5_000,
    value: ValueConfig | None = None,
) -> list[dict[str, Any]]:
    """A flat row for each series in use, most harm first, JSON-ready but for NaN (unknown).

    The ``last`` outcomes are weighed again. What a series is worth is what the service's last
    replay gave, if its window has not gone by since; else it is replayed now, half a second each,
    and its usual efficiency is that of the outcomes its reference was learned from, where these
    are among them. ``trust`` is what a rank service that acts, as it does by default, gives
    forecasts for it.
    """
    monitor = recover(store, config, last, learned=True)
    monitor.flush()
    valuer = Valuer(value)
    valuer.restore(load_values(values_path(store.path)))
    rows = []
    for whole in monitor.snapshots():
        if not whole.current:
            continue
        past = list(store.by_arrival(whole.key.served_model, last))
        for snapshot in [whole, *monitor.slices(whole.key.served_model)]:
            rows.append(_row(snapshot, monitor, valuer, past))
    trust = Trust(ActConfig())
    trust.update(standings(monitor, valuer))
    for row in rows:
        names = ("served_model", "ranker", "version", "lane", "tenant")
        row["trust"] = trust.known.get(Key(*(row[name] for name in names)), 1.0)
    return sorted(rows, key=lambda row: row["harm"], reverse=True)


def _row(
    snapshot: Snapshot, monitor: Monitor, valuer: Valuer, past: Iterable[Outcome]
) -> dict[str, Any]:
    key, reference = snapshot.key, snapshot.reference
    if valuer.usual(key) is None and reference is not None and not key.rest:
        own = [o for o in past if _belongs(o, key)][: reference.outcomes]
        _value(valuer, key, own[-snapshot.cohort.outcomes :], State.OK, False)
    recent, valued = monitor.recent(key), valuer.history(key)
    # While all is well any part of the window says the same; else it has to be nearly all of it.
    least = len(recent) * (0 if snapshot.state is State.OK else 4) // 5
    if not valued or not recent or valued[-1].at < recent[least].arrival:
        _value(valuer, key, recent, snapshot.state, not key.sliced)
    worth, saved, usual = valuer.latest(key), valuer.saved(key), valuer.usual(key)
    share = worth.efficiency.e2el if worth is not None else None
    tau = snapshot.cohort.tau
    gone = lost(
        share if share == share else None,
        usual,
        tau.value if tau.defined else None,
        reference.tau.value if reference is not None else None,
    )
    return {
        **snapshot.as_dict(),
        "efficiency_e2el": share,
        "efficiency_e2el_low": worth.e2el[0] if worth is not None else None,
        "efficiency_e2el_high": worth.e2el[1] if worth is not None else None,
        "efficiency_per_token": worth.efficiency.per_token if worth is not None else None,
        "usual_efficiency": usual,
        "p99_ratio": worth.p99_ratio if worth is not None else None,
        "saved_seconds": saved.seconds if saved is not None else None,
        "harm": snapshot.traffic * gone,
    }


def _value(
    valuer: Valuer, key: Key, window: Iterable[Outcome], state: State, seconds: bool
) -> None:
    rows = list(window)
    turn = Turn(key, len(rows), state, seconds)
    found = valuer.replay(turn, rows) if rows else None
    if found is not None:
        valuer.record(turn, found)


def _belongs(outcome: Outcome, key: Key) -> bool:
    forecast = outcome.forecast
    if forecast is None or (forecast.ranker, forecast.version) != (key.ranker, key.version):
        return False
    return not key.sliced or (outcome.lane, outcome.tenant) == (key.lane, key.tenant)
