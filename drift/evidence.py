"""Which state the statistics support, and why. Pure functions from numbers to evidence."""

from __future__ import annotations

from drift.config import MonitorConfig, UnscoredConfig
from drift.recent import Recent
from drift.reference import Reference
from drift.states import NO_EVIDENCE, Evidence, State
from drift.tau import Tau

#: What evidence says has decayed.
ORDER, SCALE, UNSCORED = "order", "scale", "unscored"

#: Share of the warning limit from which the concordance chart says that the order may be going.
#: Where forecasts lose their order, lengths stop fitting them too; where lengths alone change, the
#: chart hardly ever climbs as high (2 of 48 shifts by a factor of two, copula, tau .4 and .55).
INTACT = 0.4

#: Share of a limit down to which a height keeps the state that it brought about.
KEEP = 0.5


def from_chart(height: float, reference: Reference) -> Evidence:
    """Concordance has stayed below the allowance: the sensitive, sequential test."""
    return _from_height(height, reference.calibration.limits, reference, "concordance chart", ".1f")


def from_window(window: Tau, full: bool, reference: Reference) -> Evidence:
    """tau-b of the window has fallen from the reference's: the test for slow decay."""
    if not full or not window.defined or reference.window is None:
        return NO_EVIDENCE
    fall = reference.window.reference - window.value
    return _from_height(fall, reference.window.limits, reference, "fall of the window's tau-b")


def intact(chart: float, window: Tau, full: bool, reference: Reference) -> bool:
    """Whether the order is as it was, so that lengths that do not fit say something of their own.

    ``chart`` is the height of the concordance chart.
    """
    fallen = from_window(window, full, reference).enter > State.OK
    return chart < INTACT * reference.warn_limit and not fallen


def from_scale(height: float, longer: bool, reference: Reference, ordered: bool) -> Evidence:
    """Lengths no longer fit their forecasts. That is no loss of order: it never goes beyond
    ``warn``. Unless the order is intact (``ordered``) it is said beside it, and decides nothing."""
    if reference.scale is None:
        return NO_EVIDENCE
    limit = reference.scale.limits[1]
    if height < KEEP * limit:
        return NO_EVIDENCE
    word = "longer" if longer else "shorter"
    if not ordered:
        reason = f"answers are {word} than forecast too, which lost order alone can bring about"
        return Evidence(State.OK, State.WARN, (reason,))
    if height < limit:
        return Evidence(State.OK, State.WARN)
    reason = (
        f"answers are {word} than forecast, chart {height:.1f} reached {limit:.1f}: recalibrate "
        f"the quantiles; the order is as it was"
    )
    return Evidence(State.WARN, State.WARN, (reason,), SCALE)


def _from_height(
    height: float,
    limits: tuple[float, ...],
    reference: Reference,
    what: str,
    digits: str = ".2f",
) -> Evidence:
    for state, limit, arl in reversed(
        list(zip((State.WARN, State.DEGRADED), limits, reference.calibration.arl, strict=True))
    ):
        if height >= limit:
            reason = (
                f"{what} {height:{digits}} reached {limit:{digits}}, "
                f"a false alarm once in {arl:,.0f} outcomes"
            )
            return Evidence(state, state, (reason,), ORDER)
    return Evidence(State.OK, State.WARN if height >= KEEP * limits[0] else State.OK)


def from_recovery(
    state: State, window: Tau, reference: Reference | None, config: MonitorConfig
) -> Evidence:
    """What keeps a state that was entered: tau-b of the window has not come back yet."""
    if state < State.DEGRADED or reference is None:
        return NO_EVIDENCE
    known = window.defined and window.n >= config.least and window.low > 0.0
    if state is State.FCFS and not (
        known and window.value >= config.fcfs_recover * reference.tau.value
    ):
        return Evidence(State.OK, State.FCFS)
    if not (known and window.value >= config.recover * reference.tau.value):
        return Evidence(State.OK, State.DEGRADED)
    return NO_EVIDENCE


def from_order(state: State, since_change: Tau, config: MonitorConfig) -> Evidence:
    """Once degraded: whether any order is left in the outcomes after the estimated change."""
    if state < State.DEGRADED or not since_change.defined or since_change.n < config.fcfs_least:
        return NO_EVIDENCE
    if since_change.low > 0.0:
        return NO_EVIDENCE
    return Evidence(
        State.FCFS,
        State.FCFS,
        (
            f"tau-b {since_change.value:.2f} [{since_change.low:.2f}, {since_change.high:.2f}] "
            f"over the {since_change.n} outcomes since the change is not above 0",
        ),
        ORDER,
    )


def from_usefulness(window: Tau, config: MonitorConfig, learnable: bool) -> Evidence:
    """A ranker that never was any good has no reference to fall from."""
    if not window.defined or window.n < config.least:
        return NO_EVIDENCE
    if window.high < config.useful_tau:
        return Evidence(
            State.DEGRADED,
            State.DEGRADED,
            (
                f"tau-b {window.value:.2f} [{window.low:.2f}, {window.high:.2f}] is below "
                f"{config.useful_tau:.2f}: forecasts hardly order",
            ),
            ORDER,
        )
    if not learnable:
        return Evidence(
            State.DEGRADED,
            State.DEGRADED,
            ("no reference can be learned: forecasts order no better than chance",),
            ORDER,
        )
    return Evidence(State.OK, State.DEGRADED if window.value < config.useful_tau else State.OK)


def from_unscored(recent: Recent, config: UnscoredConfig) -> Evidence:
    """Requests without a forecast are served first come, first served, however good the ranker."""
    if len(recent) < config.least:
        return NO_EVIDENCE
    share = recent.unscored_share
    enter = stay = State.OK
    for state, limit in (
        (State.WARN, config.warn),
        (State.DEGRADED, config.degraded),
        (State.FCFS, config.fcfs),
    ):
        if share >= limit:
            enter = state
        if share >= limit * config.keep:
            stay = state
    if enter is State.OK:
        return Evidence(enter, stay)
    reason = f"{share:.0%} of the last {len(recent)} requests had no forecast"
    return Evidence(enter, stay, (reason,), UNSCORED)
