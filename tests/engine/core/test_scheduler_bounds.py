"""What nobody may be denied: a wait that ends, a budget that holds, tokens that add up."""

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.budgets import Budget
from engine.core.config import AdmissionConfig
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import make
from engine.core.request import Request
from engine.core.scheduler import Scheduler, SchedulerConfig
from ranker.types import FinishReason
from tests.engine.core.policy_parts import point
from tests.engine.core.tape import chain

COST = CostModel(base=0.03, decode=0.002, prefill=0.0007, swap=0.0002)


class World:
    """A scheduler, requests to come, and a step a second unless said otherwise."""

    def __init__(self, lanes, requests, *, seconds=1.0, fairness=None, **limits):
        config = SchedulerConfig(
            **{
                "max_num_seqs": 3,
                "max_num_batched_tokens": 24,
                "block_size": 4,
                "num_blocks": 40,
                "cost": COST,
                **limits,
            }
        )
        self.scheduler = Scheduler(config, lanes, fairness=fairness)
        self.future = sorted(requests, key=lambda request: request.arrival)
        self.seconds = seconds
        self.now = 0.0
        self.admitted: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    def step(self):
        """The plan, empty when nobody can run; time passes in any case."""
        scheduler = self.scheduler
        while self.future and self.future[0].arrival <= self.now:
            scheduler.add(self.future.pop(0), self.now)
        plan = scheduler.schedule(self.now)
        done = {}
        for step in plan.steps:
            request = scheduler.get(step.request_id)
            self.admitted.setdefault(request.id, self.now)
            if step.samples and request.output_tokens + 1 >= request.true_tokens:
                done[request.id] = FinishReason.STOP
        self.now += self.seconds
        if plan:
            for request in scheduler.commit(plan, done, self.now):
                self.ended[request.id] = self.now
        return plan

    def run(self, limit=5_000):
        for _ in range(limit):
            if not (self.future or self.scheduler.has_work):
                return
            self.step()
            self.scheduler.check_integrity()
        pytest.fail("livelock")


def crowd(seed, count, lanes, *, gap=1.5, longest=20, known=False):
    """Random requests; ``known``: their forecasts are the truth."""
    rng, now, requests = random.Random(seed), 0.0, []
    for i in range(count):
        now += rng.expovariate(1.0 / gap)
        length = rng.randint(1, longest)
        said = length if known else rng.randint(1, longest)
        forecast = point(said) if known or rng.random() < 0.8 else None
        requests.append(
            Request(
                str(i), now, rng.randint(1, 30), forecast, length, rng.choice("ab"),
                rng.choice(lanes).name, rng.randint(0, 2),
            )
        )  # fmt: skip
    return requests


seeds = st.integers(0, 1 << 32)


# -- waiting ---------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    seeds,
    st.lists(
        st.tuples(
            st.sampled_from(["fcfs", "sjf", "ranked", "boost", "priority"]),
            st.sampled_from([3.0, 20.0]),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
def test_nobody_comes_in_before_one_that_is_overdue(seed, chosen, fair):
    """In any lane, for any policy and tenant; the longest overdue of them first."""
    lanes = [
        Lane(LaneConfig(str(i), max_wait=wait, precedence=level), make(name, cost=COST, batch=3))
        for i, (name, wait, level) in enumerate(chosen)
    ]
    bound = {lane.name: lane.config.max_wait for lane in lanes}
    fairness = FairnessConfig() if fair else None
    world = World(lanes, crowd(seed, 40, lanes), fairness=fairness)
    since: dict[str, float] = {}
    while world.future or world.scheduler.has_work:
        before = {request.id for request in world.scheduler.running}
        now, plan = world.now, world.step()
        requests = {request.id: request for request in world.scheduler.running}
        for request in world.scheduler._state.room:
            requests[request.id] = request
            since.setdefault(request.id, request.arrival)

        def overdue_by(request, now=now):
            return now - since.get(request.id, request.arrival) - bound[request.lane]

        late = [
            overdue_by(request)
            for request in world.scheduler._state.room
            if overdue_by(request) >= 0.0 and request.id not in plan.preempted
        ]
        for step in plan.steps:
            request = requests.get(step.request_id)
            if late and request is not None and request.id not in before:
                assert overdue_by(request) >= max(late)
        for name in plan.preempted:
            since[name] = now
        for step in plan.steps:
            since.setdefault(step.request_id, now)


@pytest.mark.parametrize("policy", ["srpt", "gittins", "ltr:starvation=100000", "priority"])
def test_one_that_was_overdue_keeps_its_slot(policy):
    """Shorter ones keep coming; without a bound the long one would never end."""

    def ends(max_wait):
        config = LaneConfig("only", max_wait=max_wait)
        built = make(
            policy if policy != "priority" else "priority:preempts=yes", cost=COST, batch=1
        )
        shorts = [
            Request(f"s{i}", float(i), 2, point(3), true_tokens=3, priority=0) for i in range(200)
        ]
        long = Request("long", 0.5, 2, point(12), true_tokens=12, priority=1)
        world = World([Lane(config, built)], [long, *shorts], max_num_seqs=1)
        while "long" not in world.ended and world.now < 300.0:
            world.step()
        return world.ended.get("long")

    assert ends(None) is None
    # At most one short request is in the way when it becomes overdue.
    assert ends(20.0) <= 0.5 + 20.0 + 3.0 + 12.0 + 1.0


def test_one_that_was_overdue_keeps_its_slot_from_other_lanes():
    lanes = [
        Lane(LaneConfig("chat", reclaim=True), make("fcfs")),
        Lane(LaneConfig("batch", precedence=1, max_wait=10.0), make("fcfs")),
    ]
    chat = [Request(f"c{i}", i / 2, 2, true_tokens=3, lane="chat") for i in range(400)]
    batch = [Request(f"b{i}", 0.6, 2, true_tokens=9, lane="batch") for i in range(3)]
    world = World(lanes, [*chat, *batch], max_num_seqs=1)
    while world.now < 60.0:
        world.step()
    assert {"b0", "b1", "b2"} <= world.ended.keys()
    assert world.scheduler.stats.preempted_for_lane == 0


# -- budgets and tenants ---------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(seeds, st.floats(1.0, 30.0), st.floats(1.0, 80.0), st.sampled_from([14, 40]))
def test_no_tenant_starts_more_than_its_budget(seed, rate, burst, blocks):
    """Over any time, whatever lanes and preemption do: all its starts but the last fit into what
    the bucket held at most and what has flown in since."""
    lanes = [
        Lane(LaneConfig("a", max_wait=5.0), make("fcfs")),
        Lane(LaneConfig("b", reclaim=True), make("srpt", cost=COST, batch=3)),
    ]
    requests = crowd(seed, 25, lanes, known=True)
    world = World(
        lanes,
        requests,
        fairness=FairnessConfig(default_budget=Budget(rate, burst)),
        num_blocks=blocks,
        admission=AdmissionConfig("off"),
    )
    world.run()
    for tenant in "ab":
        mine = sorted(
            (world.admitted[r.id], r.prompt_tokens + r.true_tokens)
            for r in requests
            if r.tenant == tenant
        )
        starts = {when: [tokens for at, tokens in mine if at == when] for when, _ in mine}
        for begin in starts:
            used = 0.0
            for when, together in starts.items():
                if when >= begin:
                    used += sum(together)
                    assert used - max(together) <= burst + rate * (when - begin) + 1e-6


def test_a_tenant_that_returns_is_served_next_and_has_saved_nothing():
    flood = [Request(f"f{i}", 0.0, 4, point(4), 4, tenant="flood") for i in range(60)]
    early = [Request("e", 0.0, 4, point(4), 4, tenant="rare")]
    back = [Request(f"r{i}", 50.0, 4, point(4), 4, tenant="rare") for i in range(10)]
    world = World(make("fcfs"), [*flood, *early, *back], max_num_seqs=1, fairness=FairnessConfig())
    world.run()
    # Behind the one that runs and, since its counter is lifted to theirs, one that came before.
    assert world.admitted["r0"] <= 50.0 + 4.0 + 4.0
    order = sorted(world.admitted, key=world.admitted.get)
    first, last = order.index("r0"), order.index("r9")
    assert last - first == 18, "every other one is a stranger's: its absence earned no credit"


# -- memory ----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    seeds,
    st.sampled_from(["fcfs", "srpt", "mlfq", "ltr:starvation=8", "boost"]),
    st.sampled_from([13, 16, 40]),
    st.sampled_from([0, 12]),
    st.booleans(),
)
def test_tokens_add_up(seed, policy, blocks, host, hashed):
    """What was computed is what was asked for, less what was found, plus what was lost."""
    lanes = [Lane(LaneConfig("only", max_wait=30.0), make(policy, cost=COST, batch=3))]
    requests = crowd(seed, 25, lanes)
    for request in requests if hashed else ():
        rng = random.Random(request.prompt_tokens % 3)
        words = [rng.random() for _ in range(request.prompt_tokens)]
        contents, last = [], 0
        for word in [*words, *((request.id, i) for i in range(request.true_tokens))]:
            contents.append(last := chain(last, word))
        request.block_hashes = tuple(contents[3::4])
    world = World(
        lanes, requests, num_blocks=blocks, host_blocks=host, admission=AdmissionConfig("off")
    )
    computed, lost = defaultdict(int), 0
    while world.future or world.scheduler.has_work:
        before = {name: r.computed_tokens for name, r in world.scheduler._state.requests.items()}
        plan = world.step()
        for step in plan.steps:
            computed[step.request_id] += step.tokens
        for name, tokens in before.items():
            request = world.scheduler.get(name)
            if request is not None and request.computed_tokens < tokens:
                lost += tokens
        world.scheduler.check_integrity()
    wanted = sum(request.prompt_tokens + request.true_tokens - 1 for request in requests)
    stats = world.scheduler.stats
    found = stats.memory.prefix_hit_tokens + stats.memory.resume_hit_tokens
    assert all(request.output_tokens == request.true_tokens for request in requests)
    assert sum(computed.values()) == wanted - found + lost
    if not hashed:
        assert stats.recomputed_tokens == lost
