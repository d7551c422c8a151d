"""A circuit breaker: a service that is down is not asked, so its absence costs nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BreakerConfig:
    """Open after ``failures`` in a row; let one call try again after ``open_s`` seconds.

    Each failed try doubles the wait up to ``max_open_s``.
    """

    failures: int = 3
    open_s: float = 0.5
    max_open_s: float = 5.0

    def __post_init__(self) -> None:
        if self.failures < 1:
            raise ValueError(f"failures must be at least 1, got {self.failures}")
        if not 0 < self.open_s <= self.max_open_s:
            raise ValueError("open_s must be positive and at most max_open_s")


class Breaker:
    """Closed, open, or half-open with one probe under way. Times are seconds of the caller's clock.

    Every ``allow`` that returned true must be followed by ``success``, ``failure`` or ``abandon``.
    """

    def __init__(self, config: BreakerConfig | None = None) -> None:
        self._config = config or BreakerConfig()
        self._failures = 0
        self._wait = self._config.open_s
        self._until: float | None = None
        self._probing = False

    @property
    def open(self) -> bool:
        return self._until is not None

    def allow(self, now: float) -> bool:
        """Whether to call. Open: no, until the wait is over; then yes to one caller."""
        if self._until is None:
            return True
        if self._probing or now < self._until:
            return False
        self._probing = True
        return True

    def success(self) -> None:
        self._failures = 0
        self._wait = self._config.open_s
        self._until = None
        self._probing = False

    def failure(self, now: float) -> None:
        self._failures += 1
        if self._until is not None:
            # Answers of calls from before it opened say nothing new; only the probe's does.
            if self._probing:
                self._probing = False
                self._wait = min(2 * self._wait, self._config.max_open_s)
                self._until = now + self._wait
        elif self._failures >= self._config.failures:
            self._until = now + self._wait

    def abandon(self) -> None:
        """The caller was cancelled: nothing was learnt, the next one may probe."""
        self._probing = False
