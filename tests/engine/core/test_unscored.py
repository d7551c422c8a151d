"""Requests by whose forecast nobody goes, beside others that are trusted."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.config import SchedulerConfig
from engine.core.policies import Boost, BoostConfig, Fcfs
from engine.core.policies.unscored import Unscored
from engine.core.request import Request, Status
from engine.simulator import simulate
from ranker.types import FinishReason
from tests.engine.core.test_trust import COST, forecast, request

ONE_BY_ONE = SchedulerConfig(1, 4096, 16, 4096)
SETTINGS = ["balanced", "fast"]


def shared(trust: float | None, seed: int = 5, count: int = 200) -> list[Request]:
    """Every other request is of a healthy tenant; the other tenant's have ``trust``, None: no
    forecast at all. Lengths and load change on the way, and so do the middle label and patience."""
    rng, made, now = random.Random(seed), [], 0.0
    for i in range(count):
        scale = 4.0 + 1.5 * (i > count // 3) - 1.0 * (i > 2 * count // 3)
        tokens = rng.lognormvariate(scale, 1.0)
        now += rng.expovariate(1.0) * COST.work(20, tokens if i % 7 else 20.0, 1) * 1.1
        healthy = i % 2 == 0
        said = forecast(tokens) if healthy else None if trust is None else forecast(tokens, trust)
        tenant = "healthy" if healthy else "lost"
        made.append(Request(str(i), now, 20, said, max(1, int(tokens)), tenant=tenant))
    return made


def mean(requests: list[Request], policy: Boost | Fcfs, tenant: str) -> float:
    found = simulate(requests, ONE_BY_ONE, policy, COST).timings
    took = dict(zip(found.ids, found.e2el, strict=True))
    times = [took[each.id] for each in requests if each.tenant == tenant]
    return sum(times) / len(times)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_tenant_without_trust_does_not_overtake_healthy_ones(setting: str) -> None:
    config = BoostConfig.of(setting)
    lost, unscored = (
        mean(shared(trust), Boost(config, COST, 1), "healthy") for trust in (0.0, None)
    )
    assert lost <= unscored * (1.0 + 1e-9)
    assert lost < 0.8 * mean(shared(0.0), Fcfs(), "healthy")


@pytest.mark.parametrize("setting", SETTINGS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6), some=st.integers(1, 9))
def test_those_without_trust_or_forecast_go_by_arrival_among_themselves(
    setting: str, seed: int, some: int
) -> None:
    requests = shared(0.0, seed, 100)
    for each in requests:
        if int(each.id) % 2 and int(each.id) % some == 0:
            each.forecast = None
    found = simulate(requests, ONE_BY_ONE, Boost(BoostConfig.of(setting), COST, 1), COST).timings
    lost = [int(name) for name in sorted(
        found.ids, key=dict(zip(found.ids, found.finished, strict=True)).__getitem__
    ) if int(name) % 2]  # fmt: skip
    assert lost == sorted(lost)


def test_one_place_stands_while_anybody_waits_at_it() -> None:
    unscored = Unscored()
    first, second, third = (Request(name, float(i), 5) for i, name in enumerate("abc"))
    assert unscored.place(first, 0.0) == 0.0
    assert unscored.place(first, 3.0) == 3.0, "alone, it moves with the middle"
    assert unscored.place(second, 5.0) == 3.0
    first.status = Status.RUNNING
    assert unscored.place(third, 7.0) == 3.0, "the second waits"
    second.status = third.status = Status.RUNNING
    fourth = Request("d", 9.0, 5)
    assert unscored.place(fourth, 9.0) == 9.0
    unscored.forget(fourth)
    assert not unscored._waiting


def test_before_any_label_is_known_the_place_is_not_kept() -> None:
    unscored = Unscored()
    assert unscored.place(Request("a", 0.0, 5), 0.0) == 0.0
    assert unscored.place(Request("b", 1.0, 5), 4.0) == 4.0


def test_nobody_is_overdue_before_those_who_came_earlier() -> None:
    unscored = Unscored()
    first, second, third = (Request(name, float(i), 5) for i, name in enumerate("abc"))
    unscored.place(first, 2.0)
    assert unscored.patience(first, 10.0) == 10.0
    unscored.place(second, 2.0)
    assert unscored.patience(second, 3.0) == 9.0
    first.first_scheduled = 4.0
    assert unscored.patience(first, 3.0) == 3.0, "counted from when it waits again"
    first.status = second.status = Status.RUNNING
    unscored.place(third, 2.0)
    assert unscored.patience(third, 3.0) == 3.0


def test_what_is_kept_of_them_goes_when_they_end_or_are_trusted_again() -> None:
    policy = Boost(BoostConfig.of("balanced"), COST, 8)
    lost, again = request("lost", 0.0, 50.0, 0.0), request("again", 1.0, 50.0, 0.0)
    for each in (lost, again):
        policy.arrived(each)
        policy.key(each)
    again.forecast = forecast(50.0)
    policy.arrived(again)
    lost.finish_reason = FinishReason.STOP
    policy.observe(lost, 2.0)
    assert not policy._unscored._waiting
