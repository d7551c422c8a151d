"""Watches the loop's steps: gaps between the tokens of each request, and whose fault they are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from engine.core.plan import Plan
from engine.gaps import Gaps
from engine.pace import Cause, Pace

#: Share of the newest step in the running mean of steps of its size.
_NEWEST = 0.1


@dataclass(slots=True, eq=False)
class _Track:
    """A request that has a token. ``plan``: number of the newest plan with it, over at ``seen``."""

    plan: int
    seen: float
    last: float
    preempted: bool = False
    longest: float = 0.0
    gaps: Gaps = field(default_factory=Gaps)
    stalls: dict[Cause, float] = field(default_factory=dict)


class Pacing:
    """Told of every step in order; the loop's lock guards it.

    What a token's gap should be is measured: the running mean of steps that decoded as many tokens
    and did nothing else, or the number nearest to that. What a step with prefills or swaps takes
    beyond it is a stall of all that decode in it (prefill where it has both, by far the longer);
    a step that computes again what its request had lost stalls that one; and so does all time in
    which the request is in no plan. What makes a step of plain decodes slow is no stall.
    """

    def __init__(self) -> None:
        self._tracks: dict[str, _Track] = {}
        self._usual: dict[int, float] = {}
        self._plan = 0
        self._over = 0.0
        #: Seconds of stalls by cause, of all requests together.
        self.totals: dict[Cause, float] = dict.fromkeys(Cause, 0.0)

    def __len__(self) -> int:
        return len(self._tracks)

    def stepped(
        self, plan: Plan, sampled: Collection[str], guessed: int, begun: float, now: float
    ) -> None:
        """``plan`` was made at ``begun`` and its tokens, of the requests ``sampled``, are handed
        over at ``now``; of the drafts that it has room for, ``guessed`` were verified."""
        # Between two steps with nothing between them the loop hands tokens over; that is part of
        # the second one, as a reader sees it.
        since = self._over if plan.number == self._plan + 1 else begun
        self._plan, self._over = plan.number, now
        excess, cause = self._excess(plan, guessed, now - since)
        for step in plan.steps:
            track = self._tracks.get(step.request_id)
            if track is None:
                continue
            if track.plan != plan.number - 1:
                lost = Cause.PREEMPTED if track.preempted else Cause.MEMORY
                self._stalled(track, lost, since - track.seen)
            if not step.decodes:
                self._stalled(track, Cause.RECOMPUTE, now - since)
            elif excess > 0.0:
                self._stalled(track, cause, excess)
            track.plan, track.seen, track.preempted = plan.number, now, False
        for request_id in plan.preempted:
            if (track := self._tracks.get(request_id)) is not None:
                track.preempted = True
        for request_id in sampled:
            self._token(request_id, plan.number, now)

    def left(self, request_id: str) -> Pace | None:
        """A request ended; ``None`` when it never got a token."""
        track = self._tracks.pop(request_id, None)
        if track is None:
            return None
        if not len(track.gaps):
            return Pace()
        itl = track.gaps.latency()
        return Pace(
            gaps=len(track.gaps),
            mean=itl.mean,
            std=itl.std,
            p99=min(itl.p99, track.longest),
            longest=track.longest,
            stalls=dict(track.stalls),
        )

    def _excess(self, plan: Plan, guessed: int, seconds: float) -> tuple[float, Cause]:
        """What a step of ``seconds`` takes beyond its decodes, and why."""
        decodes = sum(step.decodes for step in plan.steps) + guessed
        cause = Cause.PREFILL if plan.prefill_tokens else Cause.SWAP
        usual = self._usual_of(decodes)
        if cause is Cause.PREFILL or plan.swapped_blocks:
            # Nothing is known before the first plain step; then nothing is blamed on anybody.
            return (0.0 if usual is None else max(0.0, seconds - usual)), cause
        known = self._usual.get(decodes)
        if known is None:
            self._usual[decodes] = seconds
        else:
            # A pause of the machine is not to be taken for what steps take.
            self._usual[decodes] = known + _NEWEST * (min(seconds, 2.0 * known) - known)
        return 0.0, cause

    def _usual_of(self, decodes: int) -> float | None:
        usual = self._usual
        if decodes in usual or not usual:
            return usual.get(decodes)
        return usual[min(usual, key=lambda count: abs(count - decodes))]

    def _stalled(self, track: _Track, cause: Cause, seconds: float) -> None:
        if seconds > 0.0:
            track.stalls[cause] = track.stalls.get(cause, 0.0) + seconds
            self.totals[cause] += seconds

    def _token(self, request_id: str, plan: int, now: float) -> None:
        track = self._tracks.get(request_id)
        if track is None:
            self._tracks[request_id] = _Track(plan, now, now)
            return
        gap = now - track.last
        if gap > 0.0:
            track.gaps.add(gap)
            track.longest = max(track.longest, gap)
        track.last = now
