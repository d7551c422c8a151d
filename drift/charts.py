"""The detectors of one stream, against what it is measured by: is the order lost, or the scale?"""

from __future__ import annotations

from collections.abc import Sequence

from drift import evidence
from drift.config import MonitorConfig
from drift.detectors.concordance_cusum import ConcordanceDetector
from drift.detectors.observation import Observation
from drift.detectors.pit_cusum import PitDetector
from drift.early import Early
from drift.evidence import INTACT
from drift.recent import Recent
from drift.reference import Reference
from drift.states import NO_EVIDENCE, Evidence, State
from drift.tau import Tau


class Charts:
    """Nothing is judged before there is a reference. The concordance chart then begins with the
    outcomes that came before, if there were any; its first ones are compared with too few to say
    something, and are not judged."""

    def __init__(self, config: MonitorConfig) -> None:
        self.reference: Reference | None = None
        self.rank: ConcordanceDetector | None = None
        self.scale: PitDetector | None = None
        self.early = Early(config.early)
        self._config = config
        self._unseen = 0  # outcomes until the next one has enough to be compared with
        self._said = False

    def use(self, reference: Reference, before: Sequence[Observation], since: int) -> None:
        """Go by ``reference`` from now on; the last ``since`` of ``before``, those before now,
        oldest first, are judged by it as well where nothing has judged them."""
        self.reference = reference
        self.early.use(reference.early)
        allowance, limit = reference.calibration.allowance, reference.degraded_limit
        known, late = before[: len(before) - since], before[len(before) - since :]
        if self.rank is None:
            neighbours = self._config.chart.neighbours
            self.rank = ConcordanceDetector(allowance, limit, neighbours)
            self._unseen = neighbours
            for seen in known[-neighbours:]:
                self._compare(seen)
            for seen in late:
                self._judge(seen)
        else:
            self.rank.relearn(allowance, limit)
        self.scale = reference.scale.detector(1) if reference.scale is not None else None
        if self.scale is not None:
            for seen in late:
                self.scale.update(seen)

    def update(self, seen: Observation) -> None:
        self._judge(seen)
        if self.scale is not None:
            self.scale.update(seen)

    def crossed(self, state: State) -> bool:
        """Whether a chart has just passed a limit: then nobody waits for the next look."""
        if self.rank is None or self.reference is None:
            return False
        if self.scale is not None and self.scale.drift_detected and not self._said:
            return self.rank.height < INTACT * self.reference.warn_limit
        if state >= State.DEGRADED:
            return False
        limit = self.reference.warn_limit if state is State.OK else self.reference.degraded_limit
        return self.rank.height >= limit

    def order(self, state: State, tau: Tau, window: Recent) -> tuple[Evidence, Tau]:
        """What they say of order beside tau-b of the window, to who is in ``state``, and tau-b
        since the estimated change."""
        rank, reference = self.rank, self.reference
        if rank is None or reference is None:
            return NO_EVIDENCE, tau
        since = tau
        if rank.chart.since_zero and (
            state >= State.DEGRADED or rank.height >= reference.warn_limit
        ):
            since = window.tau_since(rank.chart.since_zero)
        found = evidence.from_chart(rank.height, reference)
        found |= evidence.from_window(tau, window.full, reference)
        found |= evidence.from_recovery(state, tau, reference, self._config)
        found |= evidence.from_order(state, since, self._config)
        return found, since

    def scaled(self, tau: Tau, window: Recent) -> Evidence | None:
        """That lengths have changed as a whole, once, until their chart has come down to zero."""
        if self.scale is None or self.scale.height == 0.0:
            self._said = False
        found = self.lengths(tau, window)
        if self._said or found.enter is State.OK:
            return None
        self._said = True
        return found

    def lengths(self, tau: Tau, window: Recent) -> Evidence:
        """Whether lengths have changed as a whole."""
        rank, scale, reference = self.rank, self.scale, self.reference
        if rank is None or scale is None or reference is None:
            return NO_EVIDENCE
        longer = scale.longer.value >= scale.shorter.value
        ordered = evidence.intact(rank.height, tau, window.full, reference)
        return evidence.from_scale(scale.height, longer, reference, ordered)

    def _judge(self, seen: Observation) -> None:
        if self._unseen:
            self._compare(seen)
        elif self.rank is not None:
            self.rank.update(seen)

    def _compare(self, seen: Observation) -> None:
        if self.rank is not None:
            self.rank.see(seen)
            self._unseen = max(0, self._unseen - 1)
