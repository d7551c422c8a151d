"""When to try again. Pure: randomness is an argument.

Full jitter after M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog (2015): the
wait is uniform between nothing and a bound that doubles, so that many senders do not come back
together.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

#: A receiver that asks for more patience than this, in seconds, is asked again after it.
_MOST_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """``attempts``: at most, of one notice. Between them passes a random time of up to
    ``base_s`` x 2^n seconds, at most ``cap_s``; see ``retry``."""

    attempts: int = 8
    base_s: float = 0.5
    cap_s: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"retry.attempts must be >= 1, got {self.attempts}")
        if not 0.0 <= self.base_s <= self.cap_s < math.inf:
            raise ValueError(
                f"retry.base_s must lie between 0 and retry.cap_s, got {self.base_s} "
                f"and {self.cap_s}"
            )

    def wait_s(self, failures: int, asked_s: float, rng: random.Random) -> float:
        """Seconds until the next attempt, after ``failures`` >= 1 of them. ``asked_s``: what the
        receiver asked to wait, on top of which the jitter comes; 0 for nothing."""
        bound = min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, 62))
        return min(asked_s, _MOST_PATIENCE_S) + rng.uniform(0.0, bound)


def passes(status: int) -> bool:
    """Whether a failure with this HTTP status may pass: 0 stands for no answer at all."""
    return status in (0, 408, 425, 429) or status >= 500


def retry_after_s(header: str, now: float) -> float:
    """``Retry-After`` (RFC 9110, section 10.2.3): seconds, or a date; 0 when it is neither."""
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        wanted = parsedate_to_datetime(text).timestamp() - now
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return max(0.0, wanted)
