"""What of a series decides how it is acted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drift.key import Key
from drift.monitor import Monitor
from drift.reference import Reference
from drift.states import State
from drift.stream import Point
from drift.valuer import Valuer

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
    order began to decay; ``None`` while it does not.
    """

    key: Key
    state: State
    outcomes: int
    charted: bool = False
    calm: bool = False
    worth: float | None = None
    since: int | None = None


def standings(monitor: Monitor, valuer: Valuer | None = None) -> list[Standing]:
    """Of every series that is in use now; some 50 us each."""
    references = monitor.references()
    return [
        _standing(key, outcomes, state, references.get(key), monitor.history(key), valuer)
        for key, outcomes, state in monitor.progress()
    ]


def _standing(
    key: Key,
    outcomes: int,
    state: State,
    reference: Reference | None,
    looks: Sequence[Point],
    valuer: Valuer | None,
) -> Standing:
    worth = _efficiency(key, valuer)
    if reference is None or not looks:
        return Standing(key, state, outcomes, reference is not None, worth=worth)
    last = looks[-1]
    known = outcomes >= _LEAST and last.tau == last.tau
    if worth is None and reference.tau.value > 0.0 and known:
        worth = min(1.0, max(0.0, last.tau / reference.tau.value))
    since = None
    if state >= State.DEGRADED:
        low = _BEFORE * reference.degraded_limit
        before = next((look.outcome for look in reversed(looks) if look.chart < low), 0)
        since = outcomes - before
    calm = last.chart < _CALM * reference.warn_limit
    return Standing(key, state, outcomes, True, calm, worth, since)


def _efficiency(key: Key, valuer: Valuer | None) -> float | None:
    usual = valuer.usual(key) if valuer is not None else None
    worth = valuer.latest(key) if valuer is not None else None
    if usual is None or worth is None or not usual > 0.0:
        return None
    share = worth.efficiency.e2el / usual
    return min(1.0, max(0.0, share)) if share == share else None
