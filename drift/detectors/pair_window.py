"""tau-b of sliding windows, kept up to date outcome by outcome.

Each outcome's concordant, decided and untied pairs within the window are kept; a new outcome meets
the others once, the oldest takes its pairs with it. That is O(window) additions an outcome in place
of O(n log^2 n) for a new count, and :func:`drift.tau.kendall_tau`'s numbers, interval included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from drift.detectors.sample import Bools, Floats, Ints
from drift.tau import Tau


@dataclass(frozen=True, slots=True, eq=False)
class WindowTaus:
    """tau-b, its standard error and decided pairs, all [streams]; NaN where undefined. ``n``:
    outcomes."""

    value: Floats
    standard_error: Floats
    pairs: Ints
    n: int


class PairWindow:
    """The last ``window`` outcomes of ``streams`` streams in step."""

    def __init__(self, window: int, streams: int = 1) -> None:
        if window < 2:
            raise ValueError(f"window must be >= 2, got {window}")
        self._window = window
        shape = (streams, window)
        self._score = np.zeros(shape)
        # An empty place lies before every outcome and is no event: no pair with it is decided.
        self._time = np.full(shape, -1, np.int64)
        self._event = np.zeros(shape, np.bool_)
        self._signed, self._untied, self._decided = (np.zeros(shape, np.int32) for _ in range(3))
        self._next = self.n = 0

    @property
    def full(self) -> bool:
        return self.n == self._window

    def update(self, score: Floats | float, tokens: Ints | int, censored: Bools | bool) -> None:
        """One more outcome of each stream: scalars, or arrays of shape [streams]."""
        if self.full:
            self.drop()
        at = self._next
        self._score[:, at] = score
        # A censored length lies beyond an equal realised one: it had not stopped by then.
        self._time[:, at] = 2 * np.asarray(tokens) + np.asarray(censored)
        self._event[:, at] = np.logical_not(censored)
        for total, pairs in self._pairs(at):
            # The outcome meets itself as well, but as equal in both, which counts for nothing.
            total += pairs
            total[:, at] = pairs.sum(axis=1, dtype=np.int32)
        self._next = (at + 1) % self._window
        self.n += 1

    def drop(self) -> None:
        """Forget the oldest outcome. Raises ``ValueError`` when there is none."""
        if self.n == 0:
            raise ValueError("the window is empty")
        at = (self._next - self.n) % self._window
        for total, pairs in self._pairs(at):
            total -= pairs
            total[:, at] = 0
        self._time[:, at], self._event[:, at] = -1, False
        self.n -= 1

    def _pairs(self, at: int) -> tuple[tuple[Ints, Ints], ...]:
        """Totals, and what the pairs of place ``at`` with all others add to them."""
        score, time, event = self._score, self._time, self._event
        s, t, e = score[:, at, None], time[:, at, None], event[:, at, None]
        # A pair is decided when the one with the smaller time is an event.
        longer, shorter = (time < t) & event, (time > t) & e
        above, below = score < s, score > s
        decided = (longer | shorter).view(np.int8)
        concordant = (longer & above | shorter & below).view(np.int8)
        discordant = (longer & below | shorter & above).view(np.int8)
        equal = ((time == t) & event & e & (above | below)).view(np.int8)
        return (  # type: ignore[return-value]
            (self._signed, concordant - discordant),
            (self._untied, concordant + discordant + equal),
            (self._decided, decided),
        )

    def taus(self) -> WindowTaus:
        """Of what is in the window now."""
        n, streams = self.n, len(self._score)
        pairs = self._decided.sum(axis=1, dtype=np.int64) // 2
        if n < 2:
            unknown = np.full(streams, math.nan)
            return WindowTaus(unknown, unknown, pairs, n)
        mean_untied, mean_decided = self._untied.sum(axis=1) / n, self._decided.sum(axis=1) / n
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.sqrt(mean_untied * mean_decided)
            value = self._signed.sum(axis=1) / n / scale
            # Influence by the delta method as in drift.tau; empty places have none, and its sum
            # over the others is 0.
            influence = (
                self._signed * (2.0 / scale)[:, None]
                - self._untied * (value / mean_untied)[:, None]
                - self._decided * (value / mean_decided)[:, None]
            )
            error = np.sqrt((influence * influence).sum(axis=1)) / n
        return WindowTaus(value, error, pairs, n)

    def tau(self, confidence: float = 0.95) -> Tau:
        """The first stream's tau-b with its interval, as :func:`drift.tau.kendall_tau` gives it."""
        found = self.taus()
        value, error = float(found.value[0]), float(found.standard_error[0])
        pairs = int(found.pairs[0])
        if math.isnan(value):
            return Tau(math.nan, math.nan, math.nan, math.nan, found.n, pairs)
        reach = NormalDist().inv_cdf(0.5 + confidence / 2.0) * error
        return Tau(value, max(-1.0, value - reach), min(1.0, value + reach), error, found.n, pairs)

    def reset(self) -> None:
        """Forget every outcome."""
        self._next = self.n = 0
        self._time[:], self._event[:] = -1, False
        for total in (self._signed, self._untied, self._decided):
            total[:] = 0
