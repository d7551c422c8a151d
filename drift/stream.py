"""The monitor of one served model and one ranker version."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from drift import evidence
from drift.cohorts import Cohort, measure, tau_of
from drift.config import MonitorConfig
from drift.detectors.concordance import Concordance
from drift.detectors.concordance_cusum import Chart
from drift.events import Event
from drift.key import Key
from drift.reference import Reference
from drift.states import State, StateMachine
from drift.tau import Tau
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class Point:
    """One look at the window: what the report draws over time."""

    outcome: int
    arrival: float
    tau: float
    low: float
    high: float
    chart: float
    coverage_p50: float
    coverage_p90: float
    state: State


class Stream:
    """Feed outcomes in arrival order; unscored ones are those that fell to this stream."""

    def __init__(self, key: Key, config: MonitorConfig, reference: Reference | None) -> None:
        self.key = key
        self.reference: Reference | None = None
        self.chart: Chart | None = None
        self.outcomes = 0
        self.history: deque[Point] = deque(maxlen=config.history)
        self._config = config
        self._machine = StateMachine(config.states)
        self._concordance = Concordance(config.chart.neighbours)
        self._window: deque[Outcome] = deque(maxlen=config.window)
        self._kept: list[Outcome] = []
        self._learn_at = 0 if reference is not None else config.reference_first
        self._learnable = True
        self._looked = 0
        if reference is not None:
            self._use(reference)

    @property
    def state(self) -> State:
        return self._machine.state

    @property
    def cohort(self) -> Cohort:
        """Statistics of the window."""
        return measure(self._window, self._config.confidence)

    @property
    def recent(self) -> tuple[Outcome, ...]:
        """The window, oldest first."""
        return tuple(self._window)

    def update(self, outcome: Outcome) -> list[Event]:
        """Weigh one outcome. Raises nothing on any valid outcome."""
        self.outcomes += 1
        self._window.append(outcome)
        events: list[Event] = []
        if outcome.forecast is not None:
            x = self._concordance.update(
                outcome.forecast.score, outcome.output_tokens, outcome.finish_reason.censored
            )
            if self.chart is not None:
                self.chart.update(x)
            if self._learn_at:
                self._kept.append(outcome)
                if len(self._kept) >= self._learn_at:
                    events += self._learn(outcome)
        if self.outcomes - self._looked >= self._config.every or self._crossed():
            events += self._look(outcome)
        return events

    def look(self) -> list[Event]:
        """Look at the window now: at the end of a stream."""
        return self._look(self._window[-1]) if self.outcomes > self._looked else []

    def _crossed(self) -> bool:
        if self.chart is None or self.reference is None or self.state >= State.DEGRADED:
            return False
        limit = (
            self.reference.warn_limit if self.state is State.OK else self.reference.degraded_limit
        )
        return self.chart.value >= limit

    def _look(self, outcome: Outcome) -> list[Event]:
        config, cohort = self._config, self.cohort
        passed, self._looked = self.outcomes - self._looked, self.outcomes
        found = evidence.from_unscored(cohort, config.unscored)
        found |= evidence.from_usefulness(cohort.tau, config, self._learnable)
        since = cohort.tau
        if self.chart is not None and self.reference is not None:
            since = self._since_change(cohort.tau)
            found |= evidence.from_chart(self.chart.value, self.reference)
            found |= evidence.from_recovery(self.state, cohort.tau, self.reference, config)
            found |= evidence.from_order(self.state, since, config)
        moved = self._machine.update(found, passed)
        self.history.append(
            Point(
                self.outcomes,
                outcome.arrival,
                cohort.tau.value,
                cohort.tau.low,
                cohort.tau.high,
                self.chart.value if self.chart is not None else math.nan,
                cohort.coverage_p50,
                cohort.coverage_p90,
                self.state,
            )
        )
        if moved is None:
            return []
        before, after = moved
        tau = since if after > before else cohort.tau
        reasons = found.reasons if after > before else ("evidence stayed below it",)
        return [self._event("state", outcome, before, cohort, tau, reasons)]

    def _since_change(self, window: Tau) -> Tau:
        """tau-b after the chart last stood at zero, within the window."""
        assert self.chart is not None
        scored = [o for o in self._window if o.forecast is not None]
        count = min(self.chart.since_zero, len(scored))
        return tau_of(scored[-count:], self._config.confidence) if count else window

    def _learn(self, outcome: Outcome) -> list[Event]:
        """Learn a reference from what came before the chart last left zero."""
        config = self._config
        good = self._kept
        if self.chart is not None:
            if self.state is not State.OK:
                self._learn_at, self._kept = 0, []  # what drifted must not become the reference
                return []
            good = good[: len(good) - self.chart.since_zero]
        try:
            reference = Reference.learn(good, config)
        except ValueError:
            self._learnable = self.reference is not None
            self._kept = self._kept[len(self._kept) // 2 :]
            return []
        self._learnable = True
        self._use(reference)
        if len(self._kept) >= config.reference_most:
            self._learn_at, self._kept = 0, []
        else:
            self._learn_at = min(2 * self._learn_at, config.reference_most)
        text = (f"tau-b {reference.tau.value:.2f} over {reference.outcomes} outcomes",)
        return [self._event("reference", outcome, self.state, self.cohort, reference.tau, text)]

    def _use(self, reference: Reference) -> None:
        self.reference = reference
        ceiling = reference.degraded_limit
        if self.chart is None:
            self.chart = Chart(reference.calibration.allowance, ceiling)
        else:
            self.chart.allowance, self.chart.ceiling = reference.calibration.allowance, ceiling

    def _event(
        self,
        kind: str,
        outcome: Outcome,
        before: State,
        cohort: Cohort,
        tau: Tau,
        reasons: tuple[str, ...],
    ) -> Event:
        chart, reference, key = self.chart, self.reference, self.key
        name = f"{key.served_model} ({key.ranker or 'no ranker'} {key.version})".replace(" )", ")")
        what = "reference learned" if kind == "reference" else f"{before} -> {self.state}"
        message = f"{name}: {what}; {'; '.join(reasons)}"
        if kind == "state":
            message += f". Advice: {self.state.advice}."
        return Event(
            kind=kind,
            served_model=key.served_model,
            ranker=key.ranker,
            version=key.version,
            at=outcome.arrival,
            outcome=self.outcomes,
            previous=str(before),
            state=str(self.state),
            reasons=reasons,
            tau=tau.value if tau.defined else None,
            tau_low=tau.low if tau.defined else None,
            tau_high=tau.high if tau.defined else None,
            tau_outcomes=tau.n,
            since_change=chart.since_zero if chart is not None else None,
            reference_tau=reference.tau.value if reference is not None else None,
            chart=chart.value if chart is not None else None,
            chart_limit=reference.degraded_limit if reference is not None else None,
            unscored_share=cohort.unscored_share,
            censored_share=cohort.censored_share,
            message=message,
        )
