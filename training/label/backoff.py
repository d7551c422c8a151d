"""How long to wait before a request is tried again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential with full jitter (Brooker 2015, "Exponential Backoff And Jitter"), in seconds.

    ``tries``: how often a request is sent at most. A server that says when to come back is
    believed, up to ``most_s``.
    """

    first_s: float = 0.5
    most_s: float = 60.0
    tries: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.most_s:
            raise ValueError(f"first_s must lie in (0, most_s], got {self.first_s}")
        if self.tries < 1:
            raise ValueError(f"tries must be at least 1, got {self.tries}")

    def wait(self, tried: int, rng: random.Random, asked: float | None = None) -> float:
        """Seconds to wait after ``tried`` failures; ``asked``: what the server asked for.

        What was asked for is stretched by up to a tenth, so that not all come back at once.
        """
        if asked is not None:
            return min(self.most_s, asked) * rng.uniform(1.0, 1.1)
        return rng.uniform(0.0, min(self.most_s, self.first_s * 2.0 ** min(tried, 30)))


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a ``Retry-After`` header asks for (RFC 9110, 10.2.3: seconds or a date);
    ``None`` when there is none that can be read."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds())
