import numpy as np
import pytest

from engine.cluster import run_cluster
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import make
from engine.core.request import Request
from engine.outlook import Outlook
from engine.prefixes import chain
from engine.replica import Replica
from engine.router import ROUTERS, LeastOutstanding, PrefixAffine, make_router
from engine.simulator import simulate
from ranker.types import LEVELS, Forecast

COST = CostModel(base=0.0301, decode=0.00207, prefill=0.00073, context=0.00001)
CONFIG = SchedulerConfig(4, 256, 16, 400)


def replicas(count, config=CONFIG):
    return [
        Replica(config, make("fcfs"), COST, outlook=Outlook(COST, config.max_num_seqs))
        for _ in range(count)
    ]


def poisson(count=300, rate=3.0, seed=0, sessions=None):
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / rate, count))
    lengths = np.clip(rng.lognormal(3.2, 1.2, count), 1, 900).astype(int)
    made = []
    for i in range(count):
        hashes = () if sessions is None else chain(int(rng.integers(sessions)), 12)
        certain = Forecast(float(lengths[i]), (float(lengths[i]),) * len(LEVELS), "oracle", "1")
        made.append(
            Request(
                str(i), float(arrivals[i]), 200 if sessions else 20, certain, int(lengths[i]),
                f"t{i % 3}", block_hashes=hashes,
            )
        )  # fmt: skip
    return made


@pytest.mark.parametrize("router", ROUTERS)
def test_every_request_ends_once_and_accounts_add_up(router):
    requests = poisson()
    result = run_cluster(requests, replicas(3), make_router(router))
    assert sorted(t.request_id for t in result.timings) == sorted(r.id for r in requests)
    assert sum(result.routed) == 300
    assert [len(each.timings) for each in result.results] == list(result.routed)
    finishes = result.timings.finished
    assert (np.diff(finishes) >= 0).all()
    assert result.duration == pytest.approx(finishes.max() - requests[0].arrival)
    assert 0.0 < result.utilisation <= 1.0
    assert set(result.timings.tenants) == {"t0", "t1", "t2"}
    assert result.summary.itl.mean > COST.base
    assert not result.refused


@pytest.mark.parametrize("router", ROUTERS)
def test_a_cluster_of_one_is_the_simulator(router):
    requests = poisson(rate=1.0, sessions=5)
    alone = simulate(requests, CONFIG, make("fcfs"), COST)
    result = run_cluster(requests, replicas(1), make_router(router))
    assert [t.request_id for t in result.timings] == [t.request_id for t in alone.timings]
    assert np.allclose(result.timings.finished, alone.timings.finished)
    assert result.utilisation == pytest.approx(alone.utilisation)


def test_round_robin_deals_in_turn():
    result = run_cluster(poisson(), replicas(3), make_router("round_robin"))
    assert result.routed == (100, 100, 100)
    assert {int(t.request_id) % 3 for t in result.results[1].timings} == {1}


def test_looking_at_the_load_beats_dealing_in_turn():
    """Over several seeds; predictions cut the tail beyond what counting requests does."""
    found = {
        name: [
            run_cluster(poisson(rate=4.5, seed=seed), replicas(3), make_router(name)).summary
            for seed in range(8)
        ]
        for name in ("round_robin", "least_outstanding", "least_predicted")
    }
    means = {name: np.mean([run.e2el.mean for run in runs]) for name, runs in found.items()}
    tails = {name: np.mean([run.e2el.p99 for run in runs]) for name, runs in found.items()}
    assert means["least_outstanding"] < 0.9 * means["round_robin"]
    assert means["least_predicted"] < 0.9 * means["round_robin"]
    assert tails["least_predicted"] < tails["least_outstanding"] < tails["round_robin"]


def test_least_outstanding_joins_the_shortest_queue_and_breaks_ties_in_turn():
    made = replicas(3)
    router = LeastOutstanding()
    chosen = []
    for i in range(6):
        request = Request(str(i), 0.0, 5, true_tokens=5)
        chosen.append(router.choose(request, made))
        made[chosen[-1]].submit(request)
    assert chosen == [0, 1, 2, 0, 1, 2]
    made[1].submit(Request("x", 0.0, 5, true_tokens=5))
    assert router.choose(Request("y", 0.0, 5, true_tokens=5), made) == 0


def test_predicted_work_is_that_of_forecasts_less_what_is_done():
    (replica,) = replicas(1)
    long = Forecast(300.0, (300.0,) * len(LEVELS), "r", "1")
    replica.submit(Request("a", 0.0, 20, long, true_tokens=200))
    whole = COST.work(20, 300, 4)
    assert replica.predicted_work == pytest.approx(whole, rel=2e-3)  # forecasts have a tail
    replica.advance(3.0)
    later = replica.predicted_work
    left = 300 - replica.scheduler.get("a").output_tokens
    expected = COST.work(320 - left, left, 4) - COST.prefill * (319 - left)
    assert later == pytest.approx(expected, rel=2e-3)
    replica.advance()
    assert replica.predicted_work == 0.0
    for i in range(9):  # without forecasts: the mean of what ended; four run, the others wait
        replica.submit(Request(str(i), 100.0, 20, true_tokens=10))
    replica.advance(100.001)
    tokens = 4 * COST.work(20, 200, 4) + 5 * COST.work(20, 200, 4)
    assert replica.predicted_work == pytest.approx(tokens, rel=0.05)
    with pytest.raises(RuntimeError, match="outlook"):
        _ = Replica(CONFIG, make("fcfs"), COST).predicted_work


def test_prefixes_find_the_replica_that_has_them():
    requests = poisson(rate=2.0, sessions=100)
    affine, spread = (
        run_cluster(requests, replicas(3), router)
        for router in (PrefixAffine(slack=1), LeastOutstanding())
    )
    assert affine.prefix_hit_rate > spread.prefix_hit_rate + 0.1
    assert affine.summary.ttft.mean < spread.summary.ttft.mean


def test_a_prompt_that_all_share_does_not_pile_them_up():
    """One system prompt of 3 blocks before sessions of their own: sessions decide."""
    made, router = replicas(4), PrefixAffine()
    chosen = {}
    for turn in range(2):
        for session in range(8):
            hashes = (*chain(0, 3), *chain(1 + session, 20)[3:])
            request = Request(f"{turn}-{session}", 0.0, 320, true_tokens=5, block_hashes=hashes)
            chosen[turn, session] = router.choose(request, made)
            made[chosen[turn, session]].submit(request)
    firsts = [chosen[0, session] for session in range(8)]
    assert [chosen[1, session] for session in range(8)] == firsts


def test_an_overloaded_home_is_left():
    made, router = replicas(2), PrefixAffine(slack=5, ratio=1.5)
    chosen = []
    for i in range(20):
        request = Request(str(i), 0.0, 100, true_tokens=5, block_hashes=chain(7, 6))
        chosen.append(router.choose(request, made))
        made[chosen[-1]].submit(request)
    assert chosen[:6] == [chosen[0]] * 6
    assert 0 < sum(chosen) < 20
    loads = [replica.outstanding for replica in made]
    assert abs(loads[0] - loads[1]) <= 6


def test_forgets_the_oldest_beginnings():
    made, router = replicas(2), PrefixAffine(memory=4)
    for i in range(10):
        router.choose(Request(str(i), 0.0, 100, true_tokens=5, block_hashes=chain(i, 1)), made)
    assert list(router._homes) == [chain(i, 1)[0] for i in range(6, 10)]


def test_refuses_what_it_cannot_run():
    with pytest.raises(ValueError, match="requests"):
        run_cluster([], replicas(1), make_router("round_robin"))
    with pytest.raises(ValueError, match="replicas"):
        run_cluster(poisson(3), [], make_router("round_robin"))
    with pytest.raises(ValueError, match="least_predicted"):
        make_router("random")
    with pytest.raises(ValueError, match="ratio"):
        PrefixAffine(ratio=0.5)
