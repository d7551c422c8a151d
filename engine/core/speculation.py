"""How many tokens to draft ahead: as many as the load leaves room for, often none.

A draft that stands with probability a, behind others that stand, adds a^i tokens to a step and one
token to compute (Leviathan et al. 2023, arXiv 2211.17192). Few requests leave a step memory-bound
and drafts nearly free; many make it compute-bound and drafts cost goodput (vllm issues 4565,
49548), so each step takes the drafts that make its tokens per second the most, as SmartSpec does
(Liu et al. 2024, arXiv 2406.14066). The same rule stands for n-gram lookup, whose drafts cost
nothing, and for a draft model.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from engine.core.costs import CostModel

#: Rates are told apart this finely, so that what a choice costs does not grow with the requests;
#: downwards, because the highest of many measured rates are high by luck as well.
_LEVELS = 32
_SHARES = 8
#: A request whose drafts never stand gains nothing from them, but its fortune may turn.
_HIGHEST, _LOWEST = 0.999, 0.01


@dataclass(frozen=True, slots=True)
class SpeculationConfig:
    """max_drafts: tokens drafted per request and step at most.

    draft_seconds: what drafting one token ahead for the whole batch costs, a pass of the draft
    model; 0 for n-gram lookup. prior: acceptance rate assumed until drafts were seen. memory:
    drafts that the measured rate averages over; own_memory: those of one request that its own
    rate does. probe_every: while drafting does not pay for a request, one step of so many drafts a
    single token, to notice when it would. margin: drafts are taken when they promise at least this
    share more tokens per second than none; less is lost in what nobody measures (found: up to 15 %
    lost where drafts just paid by the numbers). steps: ``(tokens, seconds)`` of steps that were
    measured, fewest first, between which others lie on a line; beyond them, and without any, a
    draft costs what the cost model says of a prefilled token.

    Raises ``ValueError`` naming the field.
    """

    max_drafts: int = 4
    draft_seconds: float = 0.0
    prior: float = 0.6
    memory: int = 256
    own_memory: int = 16
    probe_every: int = 64
    margin: float = 0.05
    steps: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_drafts", "memory", "own_memory", "probe_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"speculation.{name} must be >= 1, got {getattr(self, name)}")
        if not self.draft_seconds >= 0.0:
            raise ValueError(f"speculation.draft_seconds must be >= 0, got {self.draft_seconds}")
        if not self.margin >= 0.0:
            raise ValueError(f"speculation.margin must be >= 0, got {self.margin}")
        if not 0.0 <= self.prior < 1.0:
            raise ValueError(f"speculation.prior must lie in [0, 1), got {self.prior}")
        if any(seconds <= 0.0 for _, seconds in self.steps) or any(
            a >= b for (a, _), (b, _) in pairwise(self.steps)
        ):
            raise ValueError(
                "speculation.steps must be pairs of tokens, ascending, and seconds above 0, got "
                f"{self.steps}"
            )


@dataclass(slots=True)
class _Record:
    """Of one request: share of its judged drafts that stood, and of the drafts it might have had
    that were proposed."""

    rate: float
    share: float


class Speculation:
    """Chooses the drafts of each step and learns how many stand, of all requests and of each."""

    def __init__(self, config: SpeculationConfig, cost: CostModel) -> None:
        self.config = config
        self._cost = cost
        self._all = _Record(config.prior, 1.0)
        self._each: dict[str, _Record] = {}
        self._steps = 0

    @property
    def rate(self) -> float:
        """Share of drafts accepted, averaged over the last ones of all requests."""
        return self._all.rate

    def choose(self, requests: Iterable[str], budget: int) -> Mapping[str, int]:
        """Drafts for each of those that decode in a step with ``budget`` tokens to spare.

        Greedily: the likeliest drafts of the step first, as far as tokens per second rise.
        """
        alike = {name: self._level(self._each.get(name, self._all)) for name in requests}
        if not alike or budget < 1:
            return {}
        self._steps += 1
        counts = Counter(alike.values())
        depths = self._depths(counts, budget)
        if self._steps % self.config.probe_every == 0:
            left = budget - sum(counts[level] * depth for level, depth in depths.items())
            for level, count in counts.items():
                if not depths.get(level) and count <= left:
                    depths[level] = 1
                    left -= count
        return {name: depths[level] for name, level in alike.items() if depths.get(level)}

    def record(self, request_id: str, planned: int, drafted: int, accepted: int) -> None:
        """Learn from one request's step: of ``planned`` drafts so many were proposed, and stood.
        Verification stops at the first that is refused.

        Raises ``ValueError`` unless ``accepted <= drafted <= planned``.
        """
        if not 0 <= accepted <= drafted <= planned:
            raise ValueError(
                f"drafted must lie in [0, {planned}] and accepted in [0, drafted], "
                f"got {drafted} and {accepted}"
            )
        own = self._each.get(request_id)
        if own is None:
            own = self._each[request_id] = _Record(self._all.rate, self._all.share)
        # Drafts behind a refused one were never judged.
        judged = accepted + (accepted < drafted)
        for record, memory in ((self._all, self.config.memory), (own, self.config.own_memory)):
            for i in range(judged):
                record.rate += (float(i < accepted) - record.rate) / memory
            record.rate = min(max(record.rate, _LOWEST), _HIGHEST)
            if planned:
                record.share += (drafted / planned - record.share) / memory

    def forget(self, request_id: str) -> None:
        """The request is over; unknown ids are ignored."""
        self._each.pop(request_id, None)

    def _level(self, record: _Record) -> tuple[int, int]:
        return int(record.rate * _LEVELS), max(1, round(record.share * _SHARES))

    def _depths(self, counts: Counter[tuple[int, int]], budget: int) -> dict[tuple[int, int], int]:
        """Drafts for the requests of each level."""
        batch = counts.total()
        # Each draft of the step once: how likely it stands with all before it, deepest last.
        ahead = sorted(
            (-((rate / _LEVELS) ** depth), depth, (rate, share))
            for rate, share in counts
            for depth in range(1, self.config.max_drafts + 1)
        )
        tokens, rows, deepest, best, taken = float(batch), 0.0, 0, 0.0, 0
        best = (1.0 + self.config.margin) * tokens / self._seconds(batch, 0.0)
        for i, (chance, depth, level) in enumerate(ahead):
            count = counts[level]
            budget -= count
            if budget < 0:
                break
            # Of drafts that were possible only a share is proposed.
            expected = count * level[1] / _SHARES
            tokens -= chance * expected
            rows += expected
            deepest = max(deepest, depth)
            seconds = self._seconds(batch, rows) + self.config.draft_seconds * deepest
            if tokens / seconds > best:
                best, taken = tokens / seconds, i + 1
        depths: dict[tuple[int, int], int] = {}
        for _, depth, level in ahead[:taken]:
            depths[level] = max(depth, depths.get(level, 0))
        return depths

    def _seconds(self, batch: int, drafts: float) -> float:
        """Of a step that decodes for ``batch`` requests and verifies so many drafts."""
        steps, tokens = self.config.steps, batch + drafts
        if not steps:
            return self._cost.step(batch, 0) + self._cost.prefill * drafts
        place = bisect_right(steps, tokens, key=lambda step: step[0])
        if place == 0:
            return steps[0][1]
        (low, least) = steps[place - 1]
        if place == len(steps):
            return least + self._cost.prefill * (tokens - low)
        (high, most) = steps[place]
        return least + (most - least) * (tokens - low) / (high - low)
