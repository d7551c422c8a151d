"""Which state the statistics support, and why. Pure functions from numbers to evidence."""

from __future__ import annotations

from drift.cohorts import Cohort
from drift.config import MonitorConfig, UnscoredConfig
from drift.reference import Reference
from drift.states import NO_EVIDENCE, Evidence, State
from drift.tau import Tau


def from_chart(height: float, reference: Reference) -> Evidence:
    """Concordance has stayed below the allowance: the sensitive, sequential test."""
    stay = State.WARN if height >= reference.warn_limit / 2.0 else State.OK
    if height >= reference.degraded_limit:
        return Evidence(
            State.DEGRADED,
            State.DEGRADED,
            (
                f"concordance chart {height:.1f} reached {reference.degraded_limit:.1f}, "
                f"a false alarm once in {reference.calibration.arl[1]:,.0f} outcomes",
            ),
        )
    if height >= reference.warn_limit:
        return Evidence(
            State.WARN,
            State.WARN,
            (
                f"concordance chart {height:.1f} reached {reference.warn_limit:.1f}, "
                f"a false alarm once in {reference.calibration.arl[0]:,.0f} outcomes",
            ),
        )
    return Evidence(State.OK, stay)


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
        )
    if not learnable:
        return Evidence(
            State.DEGRADED,
            State.DEGRADED,
            ("no reference can be learned: forecasts order no better than chance",),
        )
    return Evidence(State.OK, State.DEGRADED if window.value < config.useful_tau else State.OK)


def from_unscored(cohort: Cohort, config: UnscoredConfig) -> Evidence:
    """Requests without a forecast are served first come, first served, however good the ranker."""
    if cohort.outcomes < config.least:
        return NO_EVIDENCE
    share = cohort.unscored_share
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
    reason = f"{share:.0%} of the last {cohort.outcomes} requests had no forecast"
    return Evidence(enter, stay, (reason,) if enter > State.OK else ())
