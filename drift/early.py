"""A first look at order, by outcomes as they end: before order of arrival is back.

The chart of a stream takes outcomes in order of arrival, since under shortest first those of
similar forecasts end together, and agree less without any drift. Waiting for that order is most of
an alarm's delay. This chart does not wait. It makes up for that by what it asks: concordance has to
fall much further before it climbs. So it misses what is lost by halves, and what it says is good
for caution only (``drift.acting``): it is no alarm and moves no state.
"""

from __future__ import annotations

from drift.detectors.concordance_cusum import Calibration, ConcordanceDetector
from drift.detectors.observation import Observation


class Early:
    """``lost``: order seems to be, from when the chart reaches its limit until it is back at zero.
    Nothing is said before there is a calibration; the first outcomes after it have too few to be
    compared with, and are not judged."""

    def __init__(self, neighbours: int) -> None:
        self.lost = False
        self._neighbours = neighbours
        self._chart: ConcordanceDetector | None = None
        self._unseen = neighbours

    def use(self, calibration: Calibration | None) -> None:
        """Go by ``calibration`` from now on: its last limit."""
        if calibration is None:
            self._chart, self._unseen, self.lost = None, self._neighbours, False
        elif self._chart is None:
            self._chart = ConcordanceDetector(
                calibration.allowance, calibration.limits[-1], self._neighbours
            )
        else:
            self._chart.relearn(calibration.allowance, calibration.limits[-1])

    def update(self, seen: Observation) -> None:
        """An outcome has come, whenever it arrived."""
        if self._chart is None:
            return
        if self._unseen:
            self._chart.see(seen)
            self._unseen -= 1
            return
        self._chart.update(seen)
        if self._chart.drift_detected:
            self.lost = True
        elif self._chart.height == 0.0:
            self.lost = False
