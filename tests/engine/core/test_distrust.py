"""Trust that falls: those who wait are trusted less too, a few at each plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import scheduler as scheduler_module
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import Boost, BoostConfig, Fcfs, Ranked, make
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from engine.simulator import simulate
from ranker.types import FinishReason, Forecast
from tests.engine import naive
from tests.engine.core.test_trust import COST, forecast, learned, traffic

BALANCED = BoostConfig(tier=0.0, k=0.0)


def busy(policy: Boost | Fcfs | Ranked, lanes: int = 1) -> Scheduler:
    """One slot, which is taken: who comes waits."""
    several = [Lane(LaneConfig(str(i)), policy) for i in range(lanes)]
    scheduler = Scheduler(SchedulerConfig(1, 4096, 16, 4096), several if lanes > 1 else policy)
    scheduler.add(Request("busy", 0.0, 1))
    step(scheduler)
    return scheduler


def step(scheduler: Scheduler, now: float = 0.0) -> None:
    scheduler.commit(scheduler.schedule(now), {}, now)
    scheduler.check_integrity()


def queue(policy: Boost | Fcfs, requests: list[Request]) -> list[str]:
    """Ids in the order in which an engine with one slot serves what came while it was busy."""
    scheduler, order, now = busy(policy), [], 0.0
    for each in requests:
        scheduler.add(each, each.arrival)
    scheduler.check_integrity()
    scheduler.abort("busy", now)
    while len(order) < len(requests):
        now += 1.0
        plan = scheduler.schedule(now)
        (name,) = {part.request_id for part in plan.steps}
        order.append(name)
        scheduler.commit(plan, {name: FinishReason.STOP}, now)
        scheduler.check_integrity()
    return order


def tenants(*said: tuple[str, float, float]) -> list[Request]:
    """Tenant, forecast in tokens and trust of each, in order of arrival."""
    return [
        Request(f"{tenant}{i}", 0.1 * i, 5, forecast(tokens, trust), tenant=tenant)
        for i, (tenant, tokens, trust) in enumerate(said)
    ]


def trust_of(request: Request) -> float:
    assert request.forecast is not None
    return request.forecast.trust


def test_when_trust_falls_those_of_the_tenant_who_wait_are_ordered_by_arrival_too() -> None:
    said = [("a", 900.0, 1.0), ("b", 800.0, 1.0), ("a", 50.0, 1.0), ("b", 60.0, 1.0)]
    assert queue(learned(BALANCED), tenants(*said)) == ["a2", "b3", "b1", "a0"]
    fell = queue(learned(BALANCED), tenants(*said, ("a", 10.0, 0.0)))
    assert fell == ["b3", "a0", "a2", "a4", "b1"], "in the middle of what is forecast of others"


def test_trust_that_rises_changes_nothing_for_those_who_wait() -> None:
    said = [("a", 900.0, 0.0), ("a", 50.0, 0.0), ("a", 10.0, 1.0)]
    assert queue(learned(BALANCED), tenants(*said))[1:] == ["a0", "a1"]


def test_a_long_queue_is_looked_at_a_few_at_a_time() -> None:
    scheduler = busy(Ranked())
    held = tenants(*[("a", 100.0, 1.0)] * 1000)
    for each in held:
        scheduler.add(each)
    assert scheduler.quiet_steps(5, 0.0) == 5
    scheduler.add(Request("low", 200.0, 5, forecast(9.0, 0.2), tenant="a"))
    assert all(trust_of(each) == 1.0 for each in held)
    later = Request("later", 201.0, 5, forecast(9.0, 0.9), tenant="a")
    scheduler.add(later)
    scheduler.abort(held[500].id, 0.0)
    del held[500]
    for seen in (256, 512, 768, 999):
        assert scheduler.quiet_steps(5, 0.0) == 0
        step(scheduler)
        lowered = [trust_of(each) for each in held]
        assert lowered == [0.2] * seen + [1.0] * (999 - seen), "oldest first"
    assert scheduler.quiet_steps(5, 0.0) == 5
    assert scheduler.next_event(0.0) is None
    assert trust_of(later) == 0.9, "it came after the fall"


def test_while_somebody_is_due_the_next_plan_may_differ_at_once() -> None:
    scheduler = busy(Ranked())
    for each in tenants(("a", 90.0, 1.0), ("a", 9.0, 0.0)):
        scheduler.add(each)
    assert scheduler.quiet_steps(9, 3.0) == 0
    event = scheduler.next_event(3.0)
    assert event == pytest.approx(3.0)
    assert event is not None
    assert event > 3.0
    with pytest.raises(ValueError, match="quiet_steps"):
        scheduler.skip(1, 3.0)


def test_a_tenant_of_whom_nobody_is_held_makes_nobody_due() -> None:
    scheduler = busy(Ranked())
    for i, each in enumerate(tenants(*[(f"t{i}", 9.0, 0.5) for i in range(50)])):
        scheduler.add(each)
        assert not scheduler._distrust.pending
        assert len(scheduler._distrust._slices) == i + 1
    for i in range(50):
        scheduler.abort(f"t{i}{i}", 0.0)
    assert not scheduler._distrust._slices, "memory is bounded by who is held"


LANES, TENANTS, VERSIONS = 2, ("a", "b"), ("1", "2")
trusts = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])
deeds = st.tuples(
    st.sampled_from(["add", "add", "add", "abort", "move", "reforecast", "step"]),
    st.integers(0, 99),
    st.sampled_from(TENANTS),
    st.sampled_from(VERSIONS),
    trusts,
    st.integers(0, LANES - 1),
)


@pytest.mark.parametrize("at_once", [True, False])
@settings(max_examples=30, deadline=None)
@given(plan=st.lists(deeds, max_size=30))
def test_in_the_end_all_have_the_trust_that_they_would_have_had_at_once(
    at_once: bool, plan: list[tuple[str, int, str, str, float, int]]
) -> None:
    """Against the plain rule: each fall is told at once to all held of its slice."""
    scheduler = busy(learned(BALANCED), LANES)
    held: dict[str, Request] = {}
    expected: dict[str, float] = {}
    newest: dict[tuple[str, str, str], float] = {}

    def where(request: Request) -> tuple[str, str, str]:
        assert request.forecast is not None
        return request.lane, request.tenant, request.forecast.version

    for number, (deed, pick, tenant, version, trust, lane) in enumerate(plan):
        said = replace(forecast(10.0 + pick, trust), version=version)
        name = list(held)[pick % len(held)] if held else ""
        if deed == "add":
            name = str(number)
            held[name] = Request(name, float(number), 5, said, tenant=tenant, lane=str(lane))
            scheduler.add(held[name])
            others = [other for other in held if where(held[other]) == where(held[name])]
            if len(others) == 1 or trust < newest[where(held[name])]:
                for other in others:
                    expected[other] = min(expected.get(other, 1.0), trust)
            expected[name] = newest[where(held[name])] = trust
        elif deed == "step":
            step(scheduler)
        elif held and deed == "abort":
            scheduler.abort(name, 0.0)
            del held[name], expected[name]
        elif held:
            if deed == "move":
                scheduler.move(name, str(lane), 0.0)
            else:
                scheduler.reforecast(name, said)
                expected[name] = trust
            if not any(
                where(held[other]) == where(held[name]) for other in held if other != name
            ):  # alone, it begins a slice anew
                newest[where(held[name])] = 1.0
        scheduler.check_integrity()
        if at_once:
            step(scheduler)
    step(scheduler)
    assert not scheduler._distrust.pending
    for name, request in held.items():
        if at_once:
            assert trust_of(request) == expected[name]
        else:  # of two falls with a rise between them, the lower one may count for both
            assert trust_of(request) <= expected[name]


def test_skipping_ahead_is_as_each_step_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "_DISTRUSTED", 2)
    cost = CostModel(base=0.01, decode=0.001, prefill=0.0001)
    config = SchedulerConfig(4, 256, 16, 4096)

    def falling() -> list[Request]:
        made = traffic(1.0, count=120)
        for i, each in enumerate(made):
            each.tenant = "ab"[i % 3 == 0]
            if i > 60:
                assert each.forecast is not None
                each.forecast = replace(each.forecast, trust=0.0 if i % 3 == 0 else 0.6)
        return made

    for name in ("ranked", "boost-fast", "srpt_predicted"):
        truth = naive.run(falling(), config, make(name, cost=cost, batch=4), cost)
        found = simulate(falling(), config, make(name, cost=cost, batch=4), cost).timings
        ends = dict(zip(found.ids, found.finished, strict=True))
        assert ends.keys() == truth.seen.keys()
        for each, seen in truth.seen.items():
            assert ends[each] == pytest.approx(seen.ended)


@pytest.mark.parametrize("lower", [0.0, 0.5])
def test_trust_that_falls_tells_the_policy_nothing_new_of_what_arrives(lower: float) -> None:
    policy = learned(BALANCED)
    scheduler = busy(policy)
    for each in tenants(*[("a", 10.0 * (1 + i), 1.0) for i in range(40)]):
        scheduler.add(each)
    remembered, middle = len(policy._population._arrivals), policy._population.middle
    for each in tenants(*[("a", 10.0 * (1 + i), lower) for i in range(41)])[40:]:
        scheduler.add(each)
    step(scheduler)
    assert len(policy._population._arrivals) == remembered + (lower > 0.0)
    assert policy._population.middle == middle
    assert policy._repeats == 0
    for i in range(40):
        waits = scheduler.get(f"a{i}")
        assert waits is not None
        assert trust_of(waits) == lower


def test_a_forecast_that_differs_in_more_than_trust_is_learned() -> None:
    policy = Boost(BALANCED, COST, 8)
    one = Request("x", 0.0, 5, forecast(50.0))
    policy.arrived(one)
    label = policy._known["x"].label
    assert one.forecast is not None
    one.forecast = Forecast(80.0, forecast(80.0).quantiles, "ranker", "1", trust=0.5)
    policy.arrived(one)
    assert policy._known["x"].label > label
    assert len(policy._population._arrivals) == 2
