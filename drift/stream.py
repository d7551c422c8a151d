"""The monitor of one served model and one ranker version."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from drift import evidence
from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import ConcordanceDetector
from drift.detectors.cusum import Cusum
from drift.detectors.observation import Observation
from drift.detectors.pit_cusum import PitDetector
from drift.events import Event
from drift.key import Key
from drift.recent import Recent
from drift.reference import Reference
from drift.states import Evidence, State, StateMachine
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
    """Feed outcomes in arrival order; unscored ones are those that fell to this stream.

    Order is judged by the concordance chart (abrupt) and by the window's tau-b (slow), scale by the
    chart of the probability integral transform, which never raises the state beyond ``warn``.
    """

    def __init__(self, key: Key, config: MonitorConfig, reference: Reference | None) -> None:
        self.key = key
        self.reference: Reference | None = None
        self.rank: ConcordanceDetector | None = None
        self.scale: PitDetector | None = None
        self.outcomes = 0
        self.history: deque[Point] = deque(maxlen=config.history)
        self._config = config
        self._machine = StateMachine(config.states)
        self._window = Recent(config.window, config.confidence)
        self._kept: list[Outcome] = []
        self._learn_at = 0 if reference is not None else config.reference_first
        self._learnable = True
        self._looked = 0
        self._scaled = False
        if reference is not None:
            self._use(reference)

    @property
    def state(self) -> State:
        return self._machine.state

    @property
    def chart(self) -> Cusum | None:
        """The concordance chart, once there is a reference."""
        return self.rank.chart if self.rank is not None else None

    @property
    def recent(self) -> tuple[Outcome, ...]:
        """The window, oldest first."""
        return self._window.outcomes

    def update(self, outcome: Outcome) -> list[Event]:
        """Weigh one outcome. Raises nothing on any valid outcome."""
        self.outcomes += 1
        self._window.add(outcome)
        events: list[Event] = []
        seen = Observation.of(outcome)
        if seen is not None:
            for detector in (self.rank, self.scale):
                if detector is not None:
                    detector.update(seen)
            if self._learn_at:
                self._kept.append(outcome)
                if len(self._kept) >= self._learn_at:
                    events += self._learn(outcome)
        if self.outcomes - self._looked >= self._config.every or self._crossed():
            events += self._look(outcome)
        return events

    def look(self) -> list[Event]:
        """Look at the window now: at the end of a stream."""
        return self._look(self.recent[-1]) if self.outcomes > self._looked else []

    def _crossed(self) -> bool:
        """Whether a chart has just passed a limit: then nobody waits for the next look."""
        if self.scale is not None and self.scale.drift_detected and not self._scaled:
            return True
        if self.rank is None or self.reference is None or self.state >= State.DEGRADED:
            return False
        limit = (
            self.reference.warn_limit if self.state is State.OK else self.reference.degraded_limit
        )
        return self.rank.height >= limit

    def _look(self, outcome: Outcome) -> list[Event]:
        window, tau = self._window, self._window.tau()
        passed, self._looked = self.outcomes - self._looked, self.outcomes
        found, since = self._evidence(tau)
        moved = self._machine.update(found, passed)
        self.history.append(
            Point(
                self.outcomes,
                outcome.arrival,
                tau.value,
                tau.low,
                tau.high,
                self.rank.height if self.rank is not None else math.nan,
                *window.coverage(),
                self.state,
            )
        )
        events = self._scale_event(outcome, tau)
        if moved is not None:
            before, after = moved
            rose = after > before
            reasons = found.reasons if rose else ("evidence stayed below it",)
            cause = found.cause if rose else ""
            events.append(
                self._event("state", outcome, before, since if rose else tau, reasons, cause)
            )
        return events

    def _evidence(self, tau: Tau) -> tuple[Evidence, Tau]:
        """All there is, and tau-b since the estimated change."""
        config, window, reference = self._config, self._window, self.reference
        found = evidence.from_unscored(window, config.unscored)
        found |= evidence.from_usefulness(tau, config, self._learnable)
        if self.rank is None or reference is None:
            return found, tau
        since = tau
        if self.rank.chart.since_zero and (
            self.state >= State.DEGRADED or self.rank.height >= reference.warn_limit
        ):
            since = window.tau_since(self.rank.chart.since_zero)
        found |= evidence.from_chart(self.rank.height, reference)
        found |= evidence.from_window(tau, window.full, reference)
        found |= evidence.from_recovery(self.state, tau, reference, config)
        found |= evidence.from_order(self.state, since, config)
        if self.scale is not None:
            longer = self.scale.longer.value >= self.scale.shorter.value
            found |= evidence.from_scale(self.scale.height, longer, reference)
        return found, since

    def _scale_event(self, outcome: Outcome, tau: Tau) -> list[Event]:
        """Said once, until the chart has come down to zero."""
        if self.scale is None or self.reference is None:
            return []
        if not self.scale.drift_detected:
            self._scaled &= self.scale.height > 0.0
            return []
        if self._scaled:
            return []
        self._scaled = True
        longer = self.scale.longer.value >= self.scale.shorter.value
        said = evidence.from_scale(self.scale.height, longer, self.reference)
        return [self._event("scale", outcome, self.state, tau, said.reasons, said.cause)]

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
        return [self._event("reference", outcome, self.state, reference.tau, text)]

    def _use(self, reference: Reference) -> None:
        self.reference = reference
        allowance, limit = reference.calibration.allowance, reference.degraded_limit
        if self.rank is None:
            self.rank = ConcordanceDetector(allowance, limit, self._config.chart.neighbours)
        else:
            self.rank.relearn(allowance, limit)
        self.scale = reference.scale.detector(1) if reference.scale is not None else None

    def _event(
        self,
        kind: str,
        outcome: Outcome,
        before: State,
        tau: Tau,
        reasons: tuple[str, ...],
        cause: str = "",
    ) -> Event:
        chart, reference, key = self.chart, self.reference, self.key
        model = f"{key.served_model}, {key.label}" if key.sliced else key.served_model
        name = f"{model} ({key.ranker or 'no ranker'} {key.version})".replace(" )", ")")
        what = {"reference": "reference learned", "scale": "scale of lengths changed"}.get(
            kind, f"{before} -> {self.state}"
        )
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
            unscored_share=self._window.unscored_share,
            censored_share=self._window.censored_share,
            message=message,
            lane=key.lane,
            tenant=key.tenant,
            cause=cause,
        )
