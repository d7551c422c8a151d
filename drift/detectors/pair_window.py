"""tau-b of sliding windows, kept up to date outcome by outcome.

Each outcome's concordant, decided and untied pairs within the window are kept; a new outcome meets
the others once, the oldest takes its pairs with it. That is O(window) additions an outcome in place
of O(n log^2 n) for a new count, and :func:`drift.tau.kendall_tau`'s numbers, interval included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drift.detectors.sample import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class WindowTaus:
    """tau-b and its standard error, both [streams]; NaN where undefined. ``n``: outcomes."""

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
        self._time = np.zeros(shape, np.int64)
        self._event = np.zeros(shape, np.bool_)
        self._signed, self._untied, self._decided = (np.zeros(shape, np.int32) for _ in range(3))
        self._next = self.n = 0

    @property
    def full(self) -> bool:
        return self.n == self._window

    def update(
        self,
        score: Floats | float,
        tokens: Ints | int,
        censored: Bools | bool,
    ) -> None:
        """One more outcome of each stream: scalars, or arrays of shape [streams]."""
        at = self._next
        if self.full:
            self._meet(at, self.n, -1)
        self._score[:, at] = score
        # A censored length lies beyond an equal realised one: it had not stopped by then.
        self._time[:, at] = 2 * np.asarray(tokens) + np.asarray(censored)
        self._event[:, at] = ~np.asarray(censored, np.bool_)
        self.n = min(self.n + 1, self._window)
        self._meet(at, self.n, 1)
        self._next = (at + 1) % self._window

    def _meet(self, at: int, n: int, weight: int) -> None:
        """Add (or with -1 take away) the pairs of outcome ``at`` with the other ``n`` - 1."""
        score, time, event = self._score[:, :n], self._time[:, :n], self._event[:, :n]
        s, t, e = score[:, at, None], time[:, at, None], event[:, at, None]
        # A pair is decided when the one with the smaller time is an event.
        longer, shorter = (time < t) & event, (time > t) & e
        above, below = score < s, score > s
        decided = (longer | shorter).view(np.int8)
        signed = (longer & above | shorter & below).view(np.int8) - (
            longer & below | shorter & above
        ).view(np.int8)
        equal = ((time == t) & event & e & (above | below)).view(np.int8)
        untied = np.abs(signed) + equal
        for total, pairs in (
            (self._signed, signed),
            (self._untied, untied),
            (self._decided, decided),
        ):
            # The outcome meets itself as well, but as equal in both, which counts for nothing.
            if weight > 0:
                total[:, :n] += pairs
                total[:, at] = pairs.sum(axis=1, dtype=np.int32)
            else:
                total[:, :n] -= pairs

    def taus(self) -> WindowTaus:
        """Of what is in the window now."""
        n = self.n
        if n < 2:
            unknown = np.full(len(self._score), math.nan)
            return WindowTaus(unknown, unknown, np.zeros(len(self._score), np.int64), n)
        signed, untied, decided = self._signed[:, :n], self._untied[:, :n], self._decided[:, :n]
        pairs = decided.sum(axis=1, dtype=np.int64) // 2
        mean_untied, mean_decided = untied.mean(axis=1), decided.mean(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.sqrt(mean_untied * mean_decided)
            value = signed.mean(axis=1) / scale
            influence = 2.0 * (
                signed / scale[:, None]
                - value[:, None]
                / 2.0
                * (untied / mean_untied[:, None] + decided / mean_decided[:, None])
            )
        return WindowTaus(value, influence.std(axis=1) / math.sqrt(n), pairs, n)

    def reset(self) -> None:
        """Forget every outcome."""
        self._next = self.n = 0
        for total in (self._signed, self._untied, self._decided):
            total[:] = 0
