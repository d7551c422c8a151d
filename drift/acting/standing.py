"""What of a series decides how it is acted on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drift.key import Key
from drift.monitor import Monitor
from drift.reference import Reference
from drift.states import State
from drift.stream import Point
from drift.valuer import Valuer
from ranker.types import Outcome

#: Share of the chart's limit below which nothing speaks for a change, and below which one that was
#: estimated had not begun.
_CALM, _BEFORE = 1.0 / 3.0, 0.1

#: Outcomes from which the window's tau-b says what is left of the reference's.
_LEAST = 200


@dataclass(frozen=True, slots=True)
class Standing:
    """One series. ``charted``: it has a reference of its own to be judged by. ``calm``: and its
    chart of order is low. ``worth``: share of its usual SJF efficiency, else of its
    reference tau-b, that is left, at most 1; ``None``: not known. ``since``: outcomes since its
    order began to decay; ``None`` while it does not. ``order``: the state that lost order alone
    accounts for; ``None``: all of ``state``. ``early``: order seems lost by outcomes as they end.
    """

    key: Key
    state: State
    outcomes: int
    charted: bool = False
    calm: bool = False
    worth: float | None = None
    since: int | None = None
    order: State | None = None
    early: bool = False

    @property
    def of_order(self) -> State:
        """The state without what says nothing of order: forecasts that were missing, lengths that
        changed as a whole."""
        return self.state if self.order is None else self.order


def standings(monitor: Monitor, valuer: Valuer | None = None) -> list[Standing]:
    """Of every series that is in use now; some 50 us each, 80 where it is not ok."""
    references = monitor.references()
    found = []
    for key, outcomes, state in monitor.progress():
        looks, window = monitor.history(key), monitor.recent(key)
        worth = _efficiency(key, valuer, _began(looks, window, state))
        scored = outcomes
        if state is not State.OK:
            scored = sum(outcome.forecast is not None for outcome in window)
        one = Standing(
            key,
            state,
            outcomes,
            worth=worth,
            order=monitor.of_order(key),
            early=monitor.early(key),
        )
        found.append(_judged(one, references.get(key), looks, scored))
    return found


def _judged(
    one: Standing, reference: Reference | None, looks: Sequence[Point], scored: int
) -> Standing:
    """``one`` by its reference, of which ``looks`` at its window of ``scored`` forecasts tell."""
    if reference is None or not looks:
        return replace(one, charted=reference is not None)
    last, worth = looks[-1], one.worth
    known = scored >= _LEAST and last.tau == last.tau
    if worth is None and reference.tau.value > 0.0 and known:
        worth = min(1.0, max(0.0, last.tau / reference.tau.value))
    since = None
    if one.of_order >= State.DEGRADED:
        low = _BEFORE * reference.degraded_limit
        before = next((look.outcome for look in reversed(looks) if look.chart < low), 0)
        since = one.outcomes - before
    calm = last.chart < _CALM * reference.warn_limit
    return replace(one, charted=True, calm=calm, worth=worth, since=since)


def _began(looks: Sequence[Point], window: Sequence[Outcome], state: State) -> float:
    """Arrival before which what a replay gave says nothing of now: it is of another window, or of
    before the series came into its state."""
    began = window[0].arrival if window else -math.inf
    if state is State.OK:
        return began
    entered = began
    for look in reversed(looks):
        if look.state is not state:
            return max(began, entered)
        entered = look.arrival
    return began


def _efficiency(key: Key, valuer: Valuer | None, began: float) -> float | None:
    usual = valuer.usual(key) if valuer is not None else None
    values = valuer.history(key) if valuer is not None else ()
    if usual is None or not values or values[-1].at < began or not usual > 0.0:
        return None
    share = values[-1].worth.efficiency.e2el / usual
    return min(1.0, max(0.0, share)) if share == share else None
