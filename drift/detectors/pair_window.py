"""tau-b of sliding windows, kept up to date outcome by outcome.

Each outcome's concordant, decided and untied pairs within the window are kept; a new outcome meets
the others once, the oldest takes its pairs with it. That is O(window) additions an outcome in place
of O(n log n) for a new count, and :func:`drift.tau.kendall_tau`'s numbers, interval included.
Outcomes wait until somebody asks, because arrays are worked on by the dozen at little more cost.
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


#: Outcomes that wait at most.
_WAITING = 64


class PairWindow:
    """The last ``window`` outcomes of ``streams`` streams in step. ``n``: how many there are."""

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
        self._start = self._stored = self.n = 0
        self._leaving = 0
        self._waiting: list[tuple[Floats | float, Ints | int, Bools | bool]] = []

    @property
    def full(self) -> bool:
        return self.n == self._window

    def update(self, score: Floats | float, tokens: Ints | int, censored: Bools | bool) -> None:
        """One more outcome of each stream: scalars, or arrays of shape [streams]."""
        if self.full:
            self.drop()
        self._waiting.append((score, tokens, censored))
        self.n += 1
        if len(self._waiting) >= _WAITING:
            self._catch_up()

    def drop(self) -> None:
        """Forget the oldest outcome. Raises ``ValueError`` when there is none."""
        if self.n == 0:
            raise ValueError("the window is empty")
        if self._leaving < self._stored:
            self._leaving += 1
        else:
            self._waiting.pop(0)
        self.n -= 1

    def _catch_up(self) -> None:
        if self._leaving:
            places = (self._start + np.arange(self._leaving)) % self._window
            for total, pairs in self._pairs(places):
                total -= pairs.sum(axis=1, dtype=np.int32)
                total[:, places] = 0
            self._time[:, places], self._event[:, places] = -1, False
            self._start = (self._start + self._leaving) % self._window
            self._stored -= self._leaving
            self._leaving = 0
        if self._waiting:
            scores, tokens, censored = (np.array(v) for v in zip(*self._waiting, strict=True))
            count = len(self._waiting)
            places = (self._start + self._stored + np.arange(count)) % self._window
            shape = (count, -1)
            self._score[:, places] = scores.reshape(shape).T
            # A censored length lies beyond an equal realised one: it had not stopped by then.
            self._time[:, places] = (2 * tokens + censored).reshape(shape).T
            self._event[:, places] = ~censored.astype(np.bool_).reshape(shape).T
            for total, pairs in self._pairs(places):
                # An outcome meets itself as well, but as equal in both, which counts for nothing.
                total += pairs.sum(axis=1, dtype=np.int32)
                total[:, places] = pairs.sum(axis=2, dtype=np.int32)
            self._stored += count
            self._waiting.clear()

    def _pairs(self, places: Ints) -> tuple[tuple[Ints, Ints], ...]:
        """Totals [streams, window], and the pairs of ``places`` with all [streams, places, window]
        that count in each."""
        score, time, event = self._score[:, None], self._time[:, None], self._event[:, None]
        s, t = self._score[:, places, None], self._time[:, places, None]
        e = self._event[:, places, None]
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
        self._catch_up()
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
        self._start = self._stored = self._leaving = self.n = 0
        self._waiting.clear()
        self._time[:], self._event[:] = -1, False
        for total in (self._signed, self._untied, self._decided):
            total[:] = 0
