"""Requests that get a token at every step, followed as one: costs go with events, not tokens."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass

from engine.core.request import Request
from engine.gaps import Gaps, ramp_squares


@dataclass(slots=True, eq=False)
class Track:
    """A request in a simulation: how far it will go, and what its reader has seen so far.

    work: predicted seconds, while it waits. first, last: when its first and its newest token came.
    gaps, longest, squares: count, longest and sum of squares of the times between them, without
    those since it last joined the flow.
    """

    request: Request
    length: int
    waiting: bool = True
    work: float = 0.0
    first: float = math.nan
    last: float = math.nan
    gaps: int = 0
    longest: float = 0.0
    squares: float = 0.0
    # -- while it is in the flow ---------------------------------------------------------------
    due: int = -1  #: beat that brings its last token
    joined: int = 0  #: beat of its newest token when it joined
    mark: float = 0.0  #: sum of squares of all beats up to then


class Flow:
    """A beat is a step in which each member gets a token. Members join with their newest token and
    leave when they end, or when a step passes them by.

    What a member went through follows from the beats since it joined: their number, the running
    sum of their squared seconds, and their longest (the front of a stack of ever shorter ones).
    All in O(log n), whatever the number of beats.
    """

    def __init__(self, gaps: Gaps) -> None:
        self.beat = 0
        #: Tokens that the next beat's decodes attend to.
        self.context = 0
        self._gaps = gaps
        self._members: dict[str, Track] = {}
        self._ends: list[tuple[int, int, Track]] = []  # heap; stale where ``due`` has changed
        self._pushed = 0
        self._last = 0.0  # when the newest beat ended
        self._squares = 0.0
        self._peak_beats: list[int] = []
        self._peaks: list[float] = []  # ever shorter

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._members

    @property
    def left(self) -> int:
        """Beats until somebody ends; call only when there are members."""
        ends = self._ends
        while ends[0][2].due != ends[0][0]:
            heapq.heappop(ends)
        return ends[0][0] - self.beat

    def join(self, track: Track) -> None:
        """It just got a token and will get one at each beat from now on."""
        request = track.request
        track.joined = self.beat
        track.mark = self._squares
        self._members[request.id] = track
        self.context += request.prompt_tokens + request.output_tokens
        self._end(track, self.beat + track.length - request.output_tokens)

    def hasten(self, track: Track, tokens: int) -> None:
        """A beat brings it so many tokens more than one."""
        self.context += tokens
        self._end(track, track.due - tokens)

    def leave(self, track: Track) -> None:
        """Its newest token was that of the newest beat."""
        request = track.request
        del self._members[request.id]
        self.context -= request.prompt_tokens + track.length - (track.due - self.beat)
        track.due = -1
        beats = self.beat - track.joined
        if beats:
            track.last = self._last
            track.gaps += beats
            track.squares += max(0.0, self._squares - track.mark)
            longest = self._peaks[bisect_right(self._peak_beats, track.joined)]
            track.longest = max(track.longest, longest)

    def leave_all_but(self, sampled: Collection[str]) -> list[Track]:
        """Who is not among ``sampled`` leaves, before the beat that passes it by."""
        left = [track for name, track in self._members.items() if name not in sampled]
        for track in left:
            self.leave(track)
        return left

    def advance(self, now: float, first: float, growth: float = 0.0, steps: int = 1) -> None:
        """``steps`` beats passed, of ``first``, ``first + growth``, … seconds, the last at ``now``.

        growth >= 0.
        """
        self.beat += steps
        self._last = now
        self._squares += ramp_squares(first, growth, steps) if steps > 1 else first * first
        self.context += steps * len(self._members)
        if steps > 1:
            self._gaps.add_ramp(first, growth, steps, len(self._members))
        else:
            self._gaps.add(first, len(self._members))
        longest = first + growth * (steps - 1)
        while self._peaks and self._peaks[-1] <= longest:
            self._peaks.pop()
            self._peak_beats.pop()
        self._peaks.append(longest)
        self._peak_beats.append(self.beat)
        if len(self._peaks) > 4096:
            self._forget()

    def ended(self) -> list[Track]:
        """Those whose last token the newest beat brought; they leave."""
        found = []
        ends = self._ends
        while ends and ends[0][0] <= self.beat:
            due, _, track = heapq.heappop(ends)
            if track.due == due:
                self.leave(track)
                found.append(track)
        return found

    def _end(self, track: Track, due: int) -> None:
        track.due = due
        self._pushed += 1
        heapq.heappush(self._ends, (due, self._pushed, track))

    def _forget(self) -> None:
        """Drop peaks from before all members joined."""
        oldest = min((track.joined for track in self._members.values()), default=self.beat)
        keep = bisect_right(self._peak_beats, oldest)
        del self._peaks[:keep], self._peak_beats[:keep]


def steps_within(room: float, first: float, growth: float) -> int:
    """Steps that begin before ``room`` seconds passed; they take ``first``, ``first + growth``, …

    The n-th begins after ``n·first + growth·n(n − 1)/2``: a quadratic in n, solved without
    cancellation. ``growth`` is at most ``first``: a step attends to what it adds, too.
    """
    if room <= 0.0:
        return 0
    slope = first - growth / 2.0
    return math.ceil(2.0 * room / (slope + math.sqrt(slope * slope + 2.0 * growth * room)))
