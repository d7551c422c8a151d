"""The monitor of one served model and one ranker version."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

from drift import evidence
from drift.charts import Charts
from drift.config import MonitorConfig
from drift.detectors.cusum import Cusum
from drift.detectors.observation import Observation
from drift.events import CLOSED, Event
from drift.key import Key
from drift.learning import Learning
from drift.lesson import Lesson, School
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
    """Feed outcomes in arrival order, and to :meth:`ended` as they end; unscored ones are those
    that fell to this stream.

    Order is judged by the concordance chart (abrupt) and by the window's tau-b (slow), scale by the
    chart of the probability integral transform, which never raises the state beyond ``warn``.
    """

    def __init__(
        self,
        key: Key,
        config: MonitorConfig,
        reference: Reference | None,
        school: School | None = None,
    ) -> None:
        self.key = key
        self.outcomes = 0
        self.history: deque[Point] = deque(maxlen=config.history)
        self._config = config
        self._machine, self._order = StateMachine(config.states), StateMachine(config.states)
        self._window = Recent(config.window, config.confidence)
        self._learning = Learning(key, config, reference is not None, school or School())
        self._charts = Charts(config)
        self._looked = 0
        if reference is not None:
            self._charts.use(reference, (), 0)

    @property
    def state(self) -> State:
        return self._machine.state

    @property
    def of_order(self) -> State:
        """The state that lost order alone accounts for; at most :attr:`state`."""
        return min(self._order.state, self.state)

    @property
    def early(self) -> bool:
        """Whether order seems lost by outcomes as they end, ahead of the chart."""
        return self._charts.early.lost

    @property
    def chart(self) -> Cusum | None:
        """The concordance chart, once there is a reference."""
        rank = self._charts.rank
        return rank.chart if rank is not None else None

    @property
    def reference(self) -> Reference | None:
        return self._charts.reference

    @property
    def recent(self) -> tuple[Outcome, ...]:
        """The window, oldest first."""
        return self._window.outcomes

    def ended(self, outcome: Outcome) -> None:
        """One has ended, whose turn in order of arrival may not have come."""
        if outcome.forecast is not None:
            censored = outcome.finish_reason.censored
            self._charts.early.update(outcome.forecast.score, outcome.output_tokens, censored)

    def update(self, outcome: Outcome) -> list[Event]:
        """Weigh one outcome. Raises nothing on any valid outcome."""
        self.outcomes += 1
        self._window.add(outcome)
        events: list[Event] = []
        seen = Observation.of(outcome)
        if seen is not None:
            self._charts.update(seen)
            lesson = self._learning.see(outcome, seen, self.outcomes, self.state, self.chart)
            if lesson is not None:
                events += self.learned(lesson, lesson.learn())
        if self.outcomes - self._looked >= self._config.every or self._charts.crossed(self.state):
            events += self._look(outcome)
        return events

    def look(self) -> list[Event]:
        """Look at the window now: at the end of a stream."""
        return self._look(self.recent[-1]) if self.outcomes > self._looked else []

    def closed(self, at: float, why: str) -> list[Event]:
        """Nobody watches it any more from Unix second ``at``: what it had said is over."""
        before = self.state
        if before is State.OK:
            return []
        self._machine.reset()
        self._order.reset()
        return [self._event("state", at, before, self._window.tau(), (why,), CLOSED)]

    def _look(self, outcome: Outcome) -> list[Event]:
        window, tau = self._window, self._window.tau()
        passed, self._looked = self.outcomes - self._looked, self.outcomes
        found, since = self._evidence(tau, passed)
        moved = self._machine.update(found, passed)
        self.history.append(
            Point(
                self.outcomes,
                outcome.arrival,
                tau.value,
                tau.low,
                tau.high,
                self.chart.value if self.chart is not None else math.nan,
                *window.coverage(),
                self.state,
            )
        )
        events = []
        if (said := self._charts.scaled(tau, window)) is not None:
            events.append(
                self._event("scale", outcome.arrival, self.state, tau, said.reasons, said.cause)
            )
        if moved is not None:
            before, after = moved
            rose = after > before
            reasons = found.reasons if rose else ("evidence stayed below it",)
            cause = found.cause if rose else ""
            events.append(
                self._event(
                    "state", outcome.arrival, before, since if rose else tau, reasons, cause
                )
            )
        return events

    def _evidence(self, tau: Tau, passed: int) -> tuple[Evidence, Tau]:
        """All there is, and tau-b since the estimated change. What there is of order alone moves a
        state of its own."""
        useful = evidence.from_usefulness(tau, self._config, self._learning.learnable)
        charted, since = self._charts.order(self.state, tau, self._window)
        order = charted
        if self._order.state is not self.state:  # what keeps a state depends on which it is
            order, _ = self._charts.order(self._order.state, tau, self._window)
        self._order.update(useful | order, passed)
        found = evidence.from_unscored(self._window, self._config.unscored) | useful
        return found | (charted | self._charts.lengths(tau, self._window)), since

    def learned(self, lesson: Lesson, reference: Reference | None) -> list[Event]:
        """Take up what ``lesson`` gave, as if it had been there when it was asked for: detectors
        see what has come since. Nothing when the lesson is not this stream's last."""
        since = self._learning.end(lesson, reference)
        if since is None or reference is None:
            return []
        # All that came before and is known; the window may begin after the lesson was asked for.
        known = [seen for o in self.recent if (seen := Observation.of(o)) is not None]
        before = [*known[: max(0, len(known) - len(since))], *since]
        self._charts.use(reference, before, len(since))
        text = (f"tau-b {reference.tau.value:.2f} over {reference.outcomes} outcomes",)
        event = self._event("reference", lesson.due, self.state, reference.tau, text)
        said = [replace(event, outcome=lesson.number)]
        if since and self._charts.crossed(self.state):  # what it would have said meanwhile
            said += self._look(self.recent[-1])
        return said

    def _event(
        self,
        kind: str,
        at: float,
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
        if cause == CLOSED:
            what += ", not watched any more"
        message = f"{name}: {what}; {'; '.join(reasons)}"
        if kind == "state" and cause != CLOSED:
            message += f". Advice: {self.state.advice}."
        return Event(
            kind=kind,
            served_model=key.served_model,
            ranker=key.ranker,
            version=key.version,
            at=at,
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
