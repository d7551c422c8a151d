"""How long a ranker takes for one prompt on this machine, and what that asks of engines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from serving.rank_client import DEADLINE_S

if TYPE_CHECKING:
    from ranker.types import Ranker

_ASKED = 20
_WAITS_MS = round(1000 * DEADLINE_S)


@dataclass(frozen=True, slots=True)
class Pace:
    """Milliseconds of processor time, of prompts one by one: the ``typical`` and ``longest``."""

    typical: float
    longest: float

    @classmethod
    def of(
        cls,
        ranker: Ranker,
        prompts: Sequence[str],
        clock: Callable[[], float] = time.process_time,
    ) -> Pace:
        """From the first of ``prompts``, of which there must be one; the very first warms up."""
        some = prompts[:_ASKED]
        ranker.forecast(some[:1])
        taken = []
        for prompt in some:
            start = clock()
            ranker.forecast([prompt])
            taken.append(1000.0 * (clock() - start))
        return cls(median(taken), max(taken))

    @property
    def deadline_ms(self) -> int:
        """What an engine should allow a forecast: thrice the longest, so that two others may come
        first; at least what it allows anyway."""
        return max(_WAITS_MS, 10 * math.ceil(0.3 * self.longest))

    def __str__(self) -> str:
        said = (
            f"One prompt takes {_ms(self.typical)} ms of this processor, "
            f"{_ms(self.longest)} at most"
        )
        if self.deadline_ms == _WAITS_MS:
            return f"{said}."
        return (
            f"{said}, and an engine waits {_WAITS_MS} ms for a forecast: start engines with "
            f"--rank-deadline-ms {self.deadline_ms}, or what comes together goes unscored."
        )


def _ms(value: float) -> str:
    return f"{value:.2g}" if value < 10.0 else f"{value:.0f}"
