import math

import numpy as np
import pytest

from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.policies import make
from engine.core.request import Request
from engine.simulator import simulate
from engine.tenancy import Tenancy


def test_windows_by_hand():
    tenancy = Tenancy(window=10.0)
    tenancy.tick(0.0, 0)
    for tenant in ("a", "a", "b", "b", "c"):
        tenancy.waits(tenant)
    tenancy.tick(10.0, 0)  # nobody had waited since 0: no window yet
    assert math.isnan(tenancy.index)
    tenancy.runs("a")
    tenancy.first_token("a", 8)  # 8 + 2
    tenancy.joined("a", 0)
    tenancy.runs("b")
    tenancy.first_token("b", 18)  # 18 + 2
    tenancy.runs("c")  # now nobody of c waits: it has no claim in this window
    tenancy.first_token("c", 1000)
    tenancy.left("a", 5)  # 5 beats of 2
    tenancy.tick(22.0, 7)
    assert tenancy.index == pytest.approx(1.0)  # 20 and 20
    tenancy.token("a", 3)
    tenancy.tick(40.0, 9)
    assert tenancy.index == pytest.approx((12 * 1.0 + 18 * 0.5) / 30)  # 6 and nothing
    tenancy.tick(60.0, 9)
    assert tenancy.index == pytest.approx((12 * 1.0 + 18 * 0.5) / 30)  # nobody was served at all


def flood(seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for tenant, count in (("flood", 900), ("one", 250), ("two", 250)):
        for i, arrival in enumerate(np.sort(rng.uniform(0.0, 60.0, count))):
            prompt, output = int(rng.integers(5, 100)), int(rng.integers(5, 150))
            made.append(Request(f"{tenant}{i}", float(arrival), prompt, None, output, tenant))
    return made


def test_fair_queues_are_seen_to_be_fair():
    config, cost = SchedulerConfig(8, 512, 16, 2000), CostModel(0.03, 0.002, 0.0005)
    plain, fair = (
        simulate(flood(), config, make("fcfs"), cost, fairness=fairness)
        for fairness in (None, FairnessConfig())
    )
    assert plain.jain < 0.7
    assert fair.jain > 0.95


def test_weights_are_divided_out():
    config, cost = SchedulerConfig(8, 512, 16, 2000), CostModel(0.03, 0.002, 0.0005)
    fairness = FairnessConfig(weights={"one": 3.0})
    requests = [request for request in flood() if request.tenant != "two"]
    result = simulate(requests, config, make("fcfs"), cost, fairness=fairness)
    assert result.jain > 0.95


def test_a_single_tenant_has_no_index():
    config, cost = SchedulerConfig(8, 512, 16, 2000), CostModel(0.03, 0.002, 0.0005)
    requests = [request for request in flood() if request.tenant == "flood"]
    assert math.isnan(simulate(requests, config, make("fcfs"), cost).jain)


def test_the_window_must_be_a_time():
    with pytest.raises(ValueError, match="window"):
        Tenancy(window=0.0)
