"""A simulator as plain as can be, to hold the fast one against: each step, each token, lists."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

from engine.acceptance import Acceptance
from engine.core.scheduler import QueueFull, Scheduler
from ranker.types import FinishReason


@dataclass
class Seen:
    request: object
    tokens: list[float] = field(default_factory=list)  # when each batch of tokens came
    ended: float = math.nan


@dataclass
class Run:
    seen: dict[str, Seen] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    steps: int = 0
    now: float = 0.0
    busy: float = 0.0
    waited: float = 0.0
    slot_seconds: float = 0.0
    kv_seconds: float = 0.0
    peak_waiting: int = 0
    peak_kv: float = 0.0

    def gaps(self, request_id):
        times = self.seen[request_id].tokens
        return [b - a for a, b in pairwise(times)]


def run(requests, config, policy_or_lanes, cost, *, rate=0.0, seed=0, **options):
    """Runs to the end; ``options`` go to the scheduler, ``rate`` of its drafts are accepted."""
    scheduler = Scheduler(config, policy_or_lanes, **options)
    kept = Acceptance(rate, seed)
    speculation = options.get("speculation")
    future = sorted(requests, key=lambda r: r.arrival)
    found = Run(now=future[0].arrival)
    while future or scheduler.has_work:
        while future and future[0].arrival <= found.now:
            request = replace(future.pop(0))
            try:
                scheduler.add(request)
                found.seen[request.id] = Seen(request)
                found.waited += found.now - request.arrival
            except QueueFull:
                found.refused.append(request.id)
        plan = scheduler.schedule(found.now) if scheduler.has_work else None
        if not plan:
            then = [future[0].arrival] if future else []
            if scheduler.has_work and (event := scheduler.next_event(found.now)) is not None:
                then.append(event)
            if not then:
                break
            found.waited += scheduler.num_waiting * (min(then) - found.now)
            found.now = min(then)
            continue
        decodes = [step for step in plan.steps if step.decodes]
        drafts = sum(step.drafts for step in decodes)
        seconds = cost.step(
            len(decodes),
            sum(step.tokens for step in plan.steps if not step.decodes) + drafts,
            sum(step.start + 1 for step in decodes),
            plan.swapped_blocks * config.block_size,
        )
        if drafts:
            seconds += max(step.drafts for step in decodes) * speculation.draft_seconds
        found.steps += 1
        found.now += seconds
        found.busy += seconds
        found.waited += scheduler.num_waiting * seconds
        found.slot_seconds += scheduler.num_running * seconds
        found.kv_seconds += scheduler.kv_usage * seconds
        found.peak_kv = max(found.peak_kv, scheduler.kv_usage)
        found.peak_waiting = max(found.peak_waiting, scheduler.num_waiting)
        accepted, done = {}, {}
        for step in decodes:
            if step.drafts:
                request = scheduler.get(step.request_id)
                room = request.true_tokens - request.output_tokens - 1
                accepted[step.request_id] = min(room, kept.draw(step.drafts))
        for step in plan.steps:
            if step.samples:
                request = scheduler.get(step.request_id)
                found.seen[request.id].tokens.append(found.now)
                count = 1 + accepted.get(request.id, 0)
                if request.output_tokens + count == request.true_tokens:
                    done[request.id] = FinishReason.STOP
        for request in scheduler.commit(plan, done, found.now, accepted):
            found.seen[request.id].ended = found.now
            found.order.append(request.id)
        scheduler.check_integrity()
    return found
