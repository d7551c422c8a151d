"""Two rankers asked about the same live requests, joined with what came of them. Pure.

The champion's score schedules; the challenger's is only kept. A pair is complete when the request
has ended: whichever of score and outcome comes last completes it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drift.comparison import Comparison, Gap, Pair, Rivals, Verdict, compared
from ranker.types import Outcome


@dataclass(frozen=True, slots=True)
class ShadowConfig:
    """``window``: the newest pairs, which are compared anew after ``every`` more, from ``least``
    on; ``resamples`` of their bootstrap. ``waiting`` requests without an outcome are remembered,
    for ``age_s`` seconds."""

    window: int = 1000
    least: int = 100
    every: int = 100
    waiting: int = 20_000
    age_s: float = 4 * 3600.0
    resamples: int = 400
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("window", "least", "every", "waiting", "resamples"):
            if getattr(self, name) < 1:
                raise ValueError(f"shadow.{name} must be >= 1, got {getattr(self, name)}")
        if not 0.0 < self.age_s < float("inf"):
            raise ValueError(f"shadow.age_s must be > 0 and finite, got {self.age_s}")
        if not 2 <= self.least <= self.window:
            raise ValueError(
                f"shadow.least must lie between 2 and shadow.window ({self.window}), got "
                f"{self.least}"
            )
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"shadow.confidence must lie inside (0, 1), got {self.confidence}")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that is not a pair yet: of its challenger's score and its outcome one is missing,
    or both."""

    asked: float
    champion: float
    challenger: float | None = None
    outcome: Outcome | None = None


class Shadow:
    """One challenger beside the champion of its name. Times are Unix seconds, in any order that
    does not lie far back. Not safe for several threads at once."""

    def __init__(self, rivals: Rivals, config: ShadowConfig | None = None) -> None:
        self.rivals = rivals
        self.config = config or ShadowConfig()
        self.pairs = 0  #: made so far, also those that left the window
        self.forgotten = 0  #: requests that were given up before they were a pair
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._window: deque[Pair] = deque(maxlen=self.config.window)
        self._since = 0

    @property
    def waiting(self) -> int:
        """Requests that are not a pair yet."""
        return len(self._waiting)

    @property
    def due(self) -> bool:
        """Whether a comparison is worth its time again."""
        return len(self._window) >= self.config.least and self._since >= self.config.every

    def asked(self, request_id: str, champion: float, at: float) -> None:
        """The champion scored a request. One that comes again under its id starts anew."""
        self._waiting[request_id] = _Waiting(at, champion)
        self._waiting.move_to_end(request_id)
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if len(self._waiting) <= self.config.waiting and at - oldest.asked <= self.config.age_s:
                break
            self._waiting.popitem(last=False)
            self.forgotten += 1

    def scored(self, request_id: str, challenger: float) -> None:
        """The challenger scored it, too."""
        self._take(request_id, challenger=challenger)

    def missed(self, request_id: str) -> None:
        """The challenger never will."""
        if self._waiting.pop(request_id, None) is not None:
            self.forgotten += 1

    def ended(self, outcome: Outcome) -> None:
        """It has its outcome. One that this has not heard of is no matter."""
        self._take(outcome.request_id, outcome=outcome)

    def window(self) -> Sequence[Pair]:
        """The newest pairs. The next comparison is due ``every`` pairs from now."""
        self._since = 0
        return tuple(self._window)

    def compare(self) -> Comparison | None:
        """Of the window; ``None`` with too few pairs. 0.1 s for 1,000 pairs."""
        return compared(self.rivals, self.window(), self.config)

    def _take(self, request_id: str, **known: object) -> None:
        found = self._waiting.get(request_id)
        if found is None:
            return
        found = replace(found, **known)  # type: ignore[arg-type]
        outcome = found.outcome
        if found.challenger is None or outcome is None:
            self._waiting[request_id] = found
            return
        del self._waiting[request_id]
        self._window.append(
            Pair(
                found.champion,
                found.challenger,
                outcome.output_tokens,
                outcome.finish_reason.censored,
                outcome.lane,
                outcome.tenant,
            )
        )
        self.pairs += 1
        self._since += 1


@dataclass(slots=True)
class Beside:
    """One challenger at work: what joins, what was lost on the way, and what was found at ``at``
    (Unix seconds)."""

    shadow: Shadow
    dropped: int = 0
    latest: Comparison | None = None
    at: float | None = None

    def row(self) -> dict[str, Any]:
        """JSON-ready, flat but for the slices: the last comparison, and the counts."""
        shadow = self.shadow
        found = self.latest or Comparison(shadow.rivals, Verdict.UNCLEAR, Gap("all"))
        return {
            **found.as_dict(),
            "at": self.at,
            "total_pairs": shadow.pairs,
            "waiting": shadow.waiting,
            "forgotten": shadow.forgotten,
            "dropped": self.dropped,
        }


def shadow_path(outcomes: Path) -> Path:
    """Where the last comparisons are kept: beside the store of outcomes."""
    return outcomes.with_name(outcomes.name + ".shadow.json")
