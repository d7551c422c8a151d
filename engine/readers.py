"""What the readers of a replica's answers see: when tokens come, and how long they do not."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from engine.acceptance import Acceptance
from engine.core.plan import Plan, Step
from engine.core.request import Request
from engine.flow import Flow, Track
from engine.gaps import Gaps
from engine.outlook import Outlook
from engine.tenancy import Tenancy
from engine.timing_table import TimingTable
from engine.timings import Timings


class Readers:
    """One per request that came and has not ended. Told of each step in this order: who is passed
    by, who moved, drafts accepted, the step, ends, committed."""

    def __init__(
        self,
        gaps: Gaps,
        tenancy: Tenancy,
        acceptance: Acceptance,
        outlook: Outlook | None,
        lane: str,
    ) -> None:
        """``lane``: what a request's lane "" is called."""
        self.flow = Flow(gaps)
        self.tenancy = tenancy
        #: Predicted seconds of all that wait; 0 without an outlook.
        self.waiting_work = 0.0
        self._gaps = gaps
        self._outlook = outlook
        self._acceptance = acceptance
        self._lane = lane
        self._tracks: dict[str, Track] = {}
        self._joining: list[Track] = []
        self._table = TimingTable()

    def __len__(self) -> int:
        return len(self._tracks)

    def timings(self) -> Timings:
        """Of those that ended, in that order."""
        return self._table.timings()

    def received(self, request: Request) -> None:
        """It came, and waits; ``true_tokens`` must be known."""
        assert request.true_tokens is not None
        track = self._tracks[request.id] = Track(request, request.true_tokens)
        self._waits(track)

    def passed_by(self, planned: Collection[str]) -> None:
        """A step has only these: whoever else was in the flow gets no token now."""
        for track in self.flow.leave_all_but(planned):
            self.tenancy.left(track.request.tenant, self.flow.beat)

    def moved(self, plan: Plan, others: Sequence[Step]) -> None:
        """Who began to run, among ``others``, and who ceased to."""
        for request_id in plan.preempted:
            self._waits(self._tracks[request_id])
        for step in others:
            track = self._tracks[step.request_id]
            if track.waiting:
                track.waiting = False
                self.tenancy.runs(track.request.tenant)
                self.waiting_work -= track.work

    def accept(self, drafted: Sequence[Step]) -> dict[str, int]:
        """Draft tokens kept by each; no answer goes beyond its length."""
        found: dict[str, int] = {}
        for step in drafted:
            track = self._tracks[step.request_id]
            room = track.length - track.request.output_tokens - 1
            found[step.request_id] = count = min(room, self._acceptance.draw(step.drafts))
            if count and step.request_id in self.flow:
                self.flow.hasten(track, count)
                self.tenancy.token(track.request.tenant, count)
        return found

    def step(
        self, now: float, seconds: float, others: Sequence[Step], accepted: Mapping[str, int]
    ) -> list[str]:
        """A step ended: a token for the flow, and for those of ``others`` that were sampled.

        Returns whose answers are complete.
        """
        flow = self.flow
        if len(flow):
            flow.advance(now, seconds)
        done: list[str] = []
        for track in flow.ended():
            self.tenancy.left(track.request.tenant, flow.beat)
            done.append(track.request.id)
        for step in others:
            if step.samples:
                track = self._tracks[step.request_id]
                tokens = 1 + accepted.get(step.request_id, 0)
                self._sample(track, tokens, now)
                if track.request.output_tokens + tokens == track.length:
                    done.append(step.request_id)
                else:
                    self._joining.append(track)
        return done

    def end(self, request: Request, now: float) -> bool:
        """It ended; False when it never got a token."""
        track = self._tracks.pop(request.id)
        if math.isnan(track.first):
            return False
        if self._outlook:
            self._outlook.ended(request.output_tokens)
        self._table.add(
            request.id, request.arrival, track.first, now, request.prompt_tokens,
            request.output_tokens, track.gaps, track.longest, track.squares, request.preemptions,
            request.tenant, request.lane or self._lane,
        )  # fmt: skip
        return True

    def committed(self, now: float) -> None:
        """The scheduler counted the step's tokens."""
        for track in self._joining:
            self.flow.join(track)
            self.tenancy.joined(track.request.tenant, self.flow.beat)
        self._joining.clear()
        self.tenancy.tick(now, self.flow.beat)

    def _waits(self, track: Track) -> None:
        track.waiting = True
        self.tenancy.waits(track.request.tenant)
        if self._outlook:
            track.work = self._outlook.work(track.request)
            self.waiting_work += track.work

    def _sample(self, track: Track, tokens: int, now: float) -> None:
        """It got tokens, but not with the flow: its first, or after a stall."""
        request = track.request
        if request.output_tokens == 0:
            track.first = now
            self.tenancy.first_token(request.tenant, request.prompt_tokens)
        else:
            gap = now - track.last
            track.gaps += 1
            track.longest = max(track.longest, gap)
            track.squares += gap * gap
            self._gaps.add(gap)
            self.tenancy.token(request.tenant, tokens)
        track.last = now
