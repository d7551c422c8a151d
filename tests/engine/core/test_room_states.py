"""Random lives of a room against a naive one that recomputes the documented order every time."""

import math
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from engine.core.budgets import Budget
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies.base import Starvation, Static
from engine.core.request import Request
from engine.core.room import Room
from ranker.types import FinishReason, Forecast

TENANTS = ("a", "b", "c")


class Given(Static):
    """The machine makes the places itself; of a policy only its starvation matters."""

    name = "given"

    def __init__(self, starvation):
        self.starvation = starvation

    def key(self, request):
        raise AssertionError("a room never asks for keys")


@dataclass
class Wait:
    request: Request
    lane: LaneConfig
    place: tuple
    since: float
    step: int
    paid: bool
    told: bool = False


class Naive:
    """The same documented rules, with lists and dictionaries and no bookkeeping."""

    def __init__(self, lanes, fairness):
        self.lanes = {lane.name: lane for lane in lanes}
        self.fairness = fairness
        self.config = fairness or FairnessConfig()
        self.counting = fairness is not None and fairness.counters
        self.billing = fairness is not None or len(lanes) > 1
        self.waits: list[Wait] = []
        self.running: dict[str, str] = {}  # id -> lane
        self.charged: dict[str, tuple[str, float]] = {}  # id -> lane that admitted, output
        self.tenants: dict[tuple[str, str], float] = {}
        self.served: dict[str, float] = {}
        self.last_tenant: dict[str, str] = {}
        self.last_lane: dict[int, str] = {}
        self.zero: dict[str, float] = {}
        self.mean, self.ended = self.config.expected_output, 0

    def lane(self, request):
        return self.lanes[request.lane or next(iter(self.lanes))].config

    def counter(self, lane, tenant):
        return self.tenants.get((lane, tenant), 0.0) if self.counting else 0.0

    def eligible(self, wait, now):
        limited = self.config.budget(wait.request.tenant) is not None
        return wait.paid or not limited or self.zero.get(wait.request.tenant, -math.inf) <= now

    def order(self, wait, now):
        lane = wait.lane
        if lane.max_wait is not None and wait.since + lane.max_wait <= now:
            return (0, wait.since + lane.max_wait, wait.place[1])
        listed = list(self.lanes).index(lane.name)
        served = self.served.get(lane.name, 0.0)
        counter = self.counter(lane.name, wait.request.tenant)
        return (1, lane.precedence, served, listed, counter, wait.place)

    def heads(self, now):
        found = {}
        for wait in sorted(self.waits, key=lambda wait: self.order(wait, now)):
            if self.eligible(wait, now):
                found.setdefault(wait.lane.name, wait.request)
        return list(found.values())

    def starved(self, wait, now, step):
        bound = self.lanes[wait.lane.name].policy.starvation
        if bound is None or wait.told:
            return False
        if bound.steps is not None:
            return wait.step + bound.steps <= step
        return wait.since + bound.seconds <= now

    def push(self, request, place, now, step):
        lane = self.lane(request)
        self.running.pop(request.id, None)
        able = [wait for wait in self.waits if self.eligible(wait, now)]
        if not any(wait.lane is lane for wait in self.waits):
            peers = {
                wait.lane.name for wait in able if wait.lane.precedence == lane.precedence
            } or {self.last_lane.get(lane.precedence, "")}
            floor = min(self.served.get(name, 0.0) for name in peers)
            self.served[lane.name] = max(self.served.get(lane.name, 0.0), floor)
        here = [wait for wait in self.waits if wait.lane is lane]
        if not any(wait.request.tenant == request.tenant for wait in here):
            peers = {wait.request.tenant for wait in able if wait.lane is lane} or {
                self.last_tenant.get(lane.name, "nobody")
            }
            floor = min(self.counter(lane.name, tenant) for tenant in peers) - self.config.credit
            mine = (lane.name, request.tenant)
            self.tenants[mine] = max(self.tenants.get(mine, 0.0), floor)
        paid = request.id in self.charged
        since = now if paid else request.arrival
        self.waits.append(Wait(request, lane, place, since, step, paid))

    def remove(self, request):
        wait = next(wait for wait in self.waits if wait.request is request)
        self.waits.remove(wait)
        here = [other for other in self.waits if other.lane is wait.lane]
        if not here:
            self.last_lane[wait.lane.precedence] = wait.lane.name
        if not any(other.request.tenant == request.tenant for other in here):
            self.last_tenant[wait.lane.name] = request.tenant

    def pop(self, request, now):
        self.remove(request)
        self.running[request.id] = self.lane(request).name
        if request.id not in self.charged:
            output = self.mean if request.forecast is None else request.forecast.mean
            self.charged[request.id] = (self.lane(request).name, output)
            self.bill(request, request.prompt_tokens, output, now)

    def settle(self, request, now):
        self.running.pop(request.id, None)
        if request.id not in self.charged:
            return
        if request.finish_reason in (FinishReason.STOP, FinishReason.LENGTH):
            self.ended += 1
            self.mean += (request.output_tokens - self.mean) / min(self.ended, 256)
        self.bill(request, 0, request.output_tokens - self.charged[request.id][1], now)
        del self.charged[request.id]

    def bill(self, request, prompt, output, now):
        lane, _ = self.charged[request.id]
        service = self.config.input_weight * prompt + self.config.output_weight * output
        share = self.lanes[lane].config.share
        self.served[lane] = self.served.get(lane, 0.0) + service / share
        mine = (lane, request.tenant)
        weight = self.config.weight(request.tenant)
        self.tenants[mine] = self.tenants.get(mine, 0.0) + service / weight
        budget = self.config.budget(request.tenant)
        if budget is not None:
            full = now - budget.burst / budget.rate
            zero = max(full, self.zero.get(request.tenant, -math.inf))
            self.zero[request.tenant] = zero + (prompt + output) / budget.rate


budgets = st.builds(Budget, st.sampled_from([1.0, 8.0]), st.sampled_from([1.0, 16.0]))
fairness = st.one_of(
    st.none(),
    st.builds(
        FairnessConfig,
        weights=st.dictionaries(st.sampled_from(TENANTS), st.sampled_from([0.5, 3.0])),
        budgets=st.dictionaries(st.sampled_from(TENANTS), budgets),
        default_budget=st.one_of(st.none(), budgets),
        counters=st.booleans(),
        credit=st.sampled_from([0.0, 0.0, 25.0]),
        expected_output=st.sampled_from([0.0, 10.0]),
    ),
)
starvations = st.sampled_from([None, Starvation(steps=2), Starvation(seconds=1.5)])
lane_configs = st.tuples(
    st.sampled_from([0.5, 1.0, 3.0]),  # share
    st.integers(0, 1),  # precedence
    st.sampled_from([None, None, 1.0, 4.0]),  # max_wait
)
keys = st.integers(0, 2).map(lambda key: (float(key),))
seconds = st.sampled_from([0.0, 0.25, 1.0, 5.0])


class Lives(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now, self.step, self.count = 0.0, 0, 0
        self.running: list[Request] = []

    @initialize(
        lanes=st.lists(st.tuples(lane_configs, starvations), min_size=1, max_size=3),
        fairness=fairness,
    )
    def build(self, lanes, fairness):
        names = [f"lane{i}" for i in range(len(lanes))]
        self.lanes = [
            Lane(LaneConfig(name, share, precedence, max_wait), Given(starvation))
            for name, ((share, precedence, max_wait), starvation) in zip(names, lanes, strict=True)
        ]
        self.room = Room(self.lanes, fairness, 1000)
        self.naive = Naive(self.lanes, fairness)

    def some(self, requests, pick):
        ordered = sorted(requests, key=lambda request: int(request.id))
        return ordered[pick % len(ordered)]

    def waiting(self):
        return [wait.request for wait in self.naive.waits]

    def push(self, request, key, number):
        self.room.push(request, (key, number), self.now, self.step)
        self.naive.push(request, (key, number), self.now, self.step)

    @rule(
        tenant=st.sampled_from(TENANTS),
        lane=st.integers(0, 3),
        key=keys,
        prompt=st.integers(1, 9),
        forecast=st.sampled_from([None, None, 4.0, 30.0]),
        late=seconds,
    )
    def arrives(self, tenant, lane, key, prompt, forecast, late):
        name = "" if lane == 3 else self.lanes[lane % len(self.lanes)].name
        if forecast is not None:
            forecast = Forecast(forecast, (forecast,) * 12, "r", "1")
        request = Request(
            str(self.count), self.now - late, prompt, forecast, tenant=tenant, lane=name
        )
        self.count += 1
        self.push(request, key, int(request.id))

    @rule()
    def admit_head(self):
        head = self.room.head(self.now)
        if head is not None:
            self.admit(head)

    @precondition(lambda self: self.naive.waits)
    @rule(pick=st.integers(0, 99))
    def admit_another(self, pick):
        self.admit(self.some(self.waiting(), pick))

    def admit(self, request):
        self.room.pop(request, self.now)
        self.naive.pop(request, self.now)
        self.running.append(request)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 99), key=keys)
    def preempt(self, pick, key):
        request = self.some(self.running, pick)
        self.running.remove(request)
        self.push(request, key, int(request.id))

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 99), tokens=st.integers(0, 40), reason=st.sampled_from(FinishReason))
    def end(self, pick, tokens, reason):
        request = self.some(self.running, pick)
        self.running.remove(request)
        request.output_tokens, request.finish_reason = tokens, reason
        self.room.settle(request, self.now)
        self.naive.settle(request, self.now)

    @precondition(lambda self: self.naive.waits)
    @rule(pick=st.integers(0, 99), tokens=st.integers(0, 9))
    def abort(self, pick, tokens):
        request = self.some(self.waiting(), pick)
        request.output_tokens, request.finish_reason = tokens, FinishReason.ABORT
        for room in (self.room, self.naive):
            room.remove(request)
        self.room.settle(request, self.now)
        self.naive.settle(request, self.now)

    @precondition(lambda self: self.naive.waits)
    @rule(pick=st.integers(0, 99), key=keys)
    def rekey(self, pick, key):
        request = self.some(self.waiting(), pick)
        wait = next(wait for wait in self.naive.waits if wait.request is request)
        wait.place = (key, wait.place[1])
        self.room.rekey(request, wait.place)

    @precondition(lambda self: self.naive.waits)
    @rule(pick=st.integers(0, 99), lane=st.integers(0, 2), key=keys)
    def change_lane_waiting(self, pick, lane, key):
        request = self.some(self.waiting(), pick)
        for room in (self.room, self.naive):
            room.remove(request)
        request.lane = self.lanes[lane % len(self.lanes)].name
        self.push(request, key, int(request.id))

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 99), lane=st.integers(0, 2))
    def change_lane_running(self, pick, lane):
        request = self.some(self.running, pick)
        request.lane = self.lanes[lane % len(self.lanes)].name
        self.room.moved(request)
        self.naive.running[request.id] = request.lane

    @rule(wait=seconds, steps=st.integers(0, 2))
    def time_passes(self, wait, steps):
        self.now += wait
        self.step += steps

    @rule()
    def until_the_next_event(self):
        """Before it nothing changes by itself; the middle and the last moment stand for all."""
        event = self.room.next_event(self.now)
        starving = self.starving(self.now, self.step)
        late = event if event is not None else self.now + 1e6
        assert late > self.now
        for moment in ((self.now + late) / 2, math.nextafter(late, self.now)):
            assert self.naive.heads(moment) == self.naive.heads(self.now)
            assert self.starving(moment, self.step) == starving
        if event is not None:
            self.now = event

    @rule()
    def tell_the_starved(self):
        left = self.room.steps_to_starvation(self.now, self.step)
        told = self.room.starved(self.now, self.step)
        assert sorted(request.id for request in told) == sorted(self.starving(self.now, self.step))
        for wait in self.naive.waits:
            wait.told = wait.told or wait.request in told
        assert (left == 0) == bool(told)
        after = self.room.steps_to_starvation(self.now, self.step)
        if after is not None:
            assert self.starving(self.now, self.step + after)
            assert not self.starving(self.now, self.step + after - 1)

    def starving(self, now, step):
        naive = self.naive
        return {wait.request.id for wait in naive.waits if naive.starved(wait, now, step)}

    @invariant()
    def nobody_is_lost_or_twice_there(self):
        self.room.check_integrity()
        waiting = self.waiting()
        assert len(self.room) == len(waiting)
        assert set(self.room) == set(waiting)
        assert all(request in self.room for request in waiting)
        assert not any(request in self.room for request in self.running)
        for lane in self.lanes:
            held = [wait for wait in self.naive.waits if wait.lane is lane.config]
            assert self.room.waiting_in(lane.name) == len(held)
            runs = list(self.naive.running.values()).count(lane.name)
            assert self.room.running_in(lane.name) == runs

    @invariant()
    def the_order_is_the_documented_one(self):
        expected = self.naive.heads(self.now)
        assert list(self.room.heads(self.now)) == expected
        assert self.room.head(self.now) is (expected[0] if expected else None)

    @invariant()
    def nobody_with_budget_waits_too_long_without_being_head(self):
        late = [
            wait
            for wait in self.naive.waits
            if wait.lane.max_wait is not None
            and wait.since + wait.lane.max_wait <= self.now
            and self.naive.eligible(wait, self.now)
        ]
        if late:
            longest = min(late, key=lambda wait: (wait.since + wait.lane.max_wait, wait.place[1]))
            assert self.room.head(self.now) is longest.request

    @invariant()
    def accounts_agree(self):
        for lane in self.lanes:
            if self.naive.billing:
                served = self.naive.served.get(lane.name, 0.0)
                if len(self.lanes) > 1:
                    assert self.room.lane_virtual(lane.name) == served
            for tenant in TENANTS:
                assert self.room.virtual(tenant, lane.name) == self.naive.counter(lane.name, tenant)


Lives.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase
