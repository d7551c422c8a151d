"""Rows and points of the board, from the monitor's and the replays' values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from drift.features import EMBEDDING, LENGTH
from drift.figures import Interval, Past, Point, Series, Version, Worth, known
from drift.harm import lost
from drift.key import Key
from drift.snapshot import Snapshot
from drift.stream import Point as Look
from drift.valuer import Valued, Values
from drift.view import View

_Value = TypeVar("_Value")

#: Versions before the one in use whose lines are shown, and points of each.
PAST, THIN = 8, 240


def series(snapshot: Snapshot, view: View, values: Values) -> Series:
    """One row."""
    key, cohort, reference = snapshot.key, snapshot.cohort, snapshot.reference
    worth, saved = values.latest(key), values.saved(key)
    share = worth.efficiency.e2el if worth is not None else float("nan")
    usual = values.usual(key)
    reference_tau = reference.tau.value if reference is not None else None
    shifts = view.shifts(key)
    moved = {shift.name: shift.psi for shift in shifts}
    # The largest of several indices is above any bound by chance; its distance knows.
    inputs = [
        shift.psi
        for shift in shifts
        if shift.name != LENGTH
        and shift.psi is not None
        and (shift.name != EMBEDDING or (shift.distance or 0.0) > (shift.chance or 0.0))
    ]
    first, last = view.span(key)
    gone = lost(known(share), usual, known(cohort.tau.value), reference_tau)
    return Series(
        served_model=key.served_model,
        ranker=key.ranker,
        version=key.version,
        lane=key.lane,
        tenant=key.tenant,
        label=key.label,
        state=str(snapshot.state),
        outcomes=snapshot.outcomes,
        window=cohort.outcomes,
        traffic=snapshot.traffic,
        tau=Interval.of(cohort.tau.value, cohort.tau.low, cohort.tau.high),
        reference_tau=reference_tau,
        concordance=Interval.of(
            cohort.concordance.value, cohort.concordance.low, cohort.concordance.high
        ),
        efficiency=Interval.of(share, *worth.e2el) if worth is not None else Interval(),
        efficiency_per_token=(
            Interval.of(worth.efficiency.per_token, *worth.per_token)
            if worth is not None
            else Interval()
        ),
        p99_ratio=known(worth.p99_ratio) if worth is not None else None,
        usual_efficiency=usual,
        saved_seconds=(
            Interval.of(saved.seconds, saved.low, saved.high) if saved is not None else Interval()
        ),
        harm=snapshot.traffic * gone,
        unscored=known(cohort.unscored_share),
        censored=known(cohort.censored_share),
        coverage_p50=known(cohort.coverage_p50),
        coverage_p90=known(cohort.coverage_p90),
        length_shift=moved.get("output_tokens"),
        input_shift=max(inputs, default=None),
        chart=known(snapshot.chart),
        chart_warn=reference.warn_limit if reference is not None else None,
        chart_degraded=reference.degraded_limit if reference is not None else None,
        first_arrival=known(first),
        last_arrival=known(last),
    )


def past(view: View, values: Values, versions: Sequence[Snapshot]) -> tuple[Past, ...]:
    """The lines of ``versions`` that are not in use, the one looked at last at the end; the newest
    of them only, and every so-manieth of their points."""
    found = [
        Past(
            ranker=s.key.ranker,
            version=s.key.version,
            history=tuple(point(look) for look in _thin(view.history(s.key))),
            worth=tuple(worth(valued) for valued in _thin(values.history(s.key))),
        )
        for s in versions
        if not s.current and s.key.ranker and view.history(s.key)
    ]
    found.sort(key=lambda one: one.history[-1].at)
    return tuple(found[-PAST:])


def worths(values: Values, key: Key) -> tuple[Worth, ...]:
    """Replays of one series, oldest first."""
    return tuple(worth(valued) for valued in values.history(key))


def worth(valued: Valued) -> Worth:
    found = valued.worth
    return Worth(
        valued.at,
        valued.outcome,
        Interval.of(found.efficiency.e2el, *found.e2el),
        Interval.of(found.efficiency.per_token, *found.per_token),
        known(found.p99_ratio),
    )


def point(look: Look) -> Point:
    return Point(
        at=look.arrival,
        outcome=look.outcome,
        tau=Interval.of(look.tau, look.low, look.high),
        chart=known(look.chart),
        coverage_p50=known(look.coverage_p50),
        coverage_p90=known(look.coverage_p90),
        state=str(look.state),
    )


def version(snapshot: Snapshot, view: View) -> Version:
    first, last = view.span(snapshot.key)
    tau = snapshot.cohort.tau
    return Version(
        ranker=snapshot.key.ranker,
        version=snapshot.key.version,
        current=snapshot.current,
        state=str(snapshot.state),
        outcomes=snapshot.outcomes,
        tau=Interval.of(tau.value, tau.low, tau.high),
        reference_tau=snapshot.reference.tau.value if snapshot.reference is not None else None,
        first_arrival=known(first),
        last_arrival=known(last),
    )


def _thin(points: Sequence[_Value]) -> Sequence[_Value]:
    """At most :data:`THIN`, the last one among them."""
    step = -(-len(points) // THIN) if points else 1
    return points[::-1][::step][::-1]
