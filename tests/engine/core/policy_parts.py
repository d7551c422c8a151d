"""What tests of policies share: forecasts by hand, and one slot that obeys a policy."""

from engine.core.request import Request, Status
from ranker.types import LEVELS, Forecast


def point(tokens, score=None):
    """A forecast that is sure."""
    score = float(tokens) if score is None else score
    return Forecast(score, (float(tokens),) * len(LEVELS), "ranker", "1")


def uniform(low, high, score=0.0):
    """A forecast that knows the bounds only."""
    quantiles = tuple(low + (high - low) * p for p in LEVELS)
    return Forecast(score, quantiles, "ranker", "1")


def waiting(name, arrival=0.0, prompt=10, forecast=None, true=None, **fields):
    return Request(name, arrival, prompt, forecast, true, **fields)


def running(name, tokens, arrival=0.0, prompt=10, forecast=None, true=None, **fields):
    """One that runs and has ``tokens`` output tokens."""
    request = waiting(name, arrival, prompt, forecast, true, **fields)
    request.status, request.output_tokens = Status.RUNNING, tokens
    request.computed_tokens = request.total_tokens - 1 if tokens else 0
    return request


def one_slot(policy, requests, seconds=1.0):
    """Who gives each token when one runs at a time and a step takes ``seconds``; "." idles.

    Prefill takes the step of the first token. A preempted request loses what was computed.
    """
    slot = _Slot(policy, requests, seconds)
    while slot.future or slot.waits or slot.runs:
        slot.step()
    return slot.order


class _Slot:
    def __init__(self, policy, requests, seconds):
        self.policy, self.seconds = policy, seconds
        self.future = sorted(requests, key=lambda request: request.arrival)
        self.number = {request: i for i, request in enumerate(self.future)}
        self.places, self.since, self.told = {}, {}, set()
        self.waits, self.runs, self.due = [], None, None
        self.order, self.steps = "", 0

    def step(self):
        now = self.steps * self.seconds
        while self.future and self.future[0].arrival <= now:
            self.policy.arrived(self.future[0])
            self._wait(self.future.pop(0), now)
        for request in self.waits:
            if request not in self.told and self._starved(request, now):
                self.told.add(request)
                self.policy.starved(request)
                self._key(request)
        self._choose(now)
        self.steps += 1
        if self.runs is None:
            self.order += "."
            return
        request = self.runs
        request.output_tokens += 1
        request.computed_tokens = request.total_tokens - 1
        self.order += request.id
        if request.output_tokens == request.true_tokens:
            self.policy.observe(request, now)
            self.runs = None
        elif request.output_tokens == self.due:
            self._key(request)
            self._schedule(request)

    def _choose(self, now):
        head = min(self.waits, key=self.places.get, default=None)
        if head is None:
            return
        if self.runs is not None:
            if not self.policy.preempts or self.places[head] > self.places[self.runs]:
                return
            stopped, self.runs = self.runs, None
            stopped.status, stopped.computed_tokens = Status.WAITING, 0
            self._wait(stopped, now)
        self.waits.remove(head)
        head.status, self.runs = Status.RUNNING, head
        if head.output_tokens:
            self._key(head)
        self._schedule(head)

    def _wait(self, request, now):
        self.waits.append(request)
        self.since[request] = (self.steps, now)
        self.told.discard(request)
        self._key(request)

    def _key(self, request):
        self.places[request] = (self.policy.key(request), self.number[request])

    def _schedule(self, request):
        after = self.policy.rekey_after(request)
        self.due = None if after is None else request.output_tokens + after

    def _starved(self, request, now):
        bound = self.policy.starvation
        if bound is None:
            return False
        steps, seconds = self.since[request]
        if bound.steps is not None:
            return self.steps - steps >= bound.steps
        return now - seconds >= bound.seconds
