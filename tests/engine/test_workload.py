import numpy as np
import pytest
from scipy.stats import kendalltau, kstest

from engine import workload
from engine.core.costs import CostModel
from engine.workload import Lengths


def rng(seed=11):
    return np.random.default_rng(seed)


def lengths(count=2000):
    return np.maximum(1, rng().lognormal(5.0, 1.0, count)).astype(np.int64)


def test_renewal_of_shape_one_is_poisson():
    arrivals = workload.renewal(5000, 4.0, 1.0, rng())
    assert kstest(np.diff(arrivals), "expon", args=(0, 0.25)).pvalue > 0.01
    assert arrivals[0] == 0.0


def test_burstiness_widens_the_gaps():
    gaps = np.diff(workload.renewal(20_000, 4.0, 0.25, rng()))
    assert gaps.mean() == pytest.approx(0.25, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.05)  # 1/sqrt(shape)


def test_waves_alternate_between_two_rates():
    arrivals = workload.waves(40_000, 10.0, 60.0, 0.6, rng())
    assert (np.diff(arrivals) >= 0).all()
    high = (arrivals % 120.0) < 60.0
    whole = arrivals < arrivals[-1] // 120 * 120
    seconds = arrivals[-1] // 120 * 60
    assert (high & whole).sum() / seconds == pytest.approx(16.0, rel=0.03)
    assert (~high & whole).sum() / seconds == pytest.approx(4.0, rel=0.05)


def test_waves_may_fall_silent():
    arrivals = workload.waves(5000, 10.0, 30.0, 1.0, rng())
    assert ((arrivals % 60.0) <= 30.0).all()


def test_burst_lies_within_its_spread():
    arrivals = workload.burst(64, 1.5, rng())
    assert len(arrivals) == 64
    assert 0 <= arrivals.min() <= arrivals.max() <= 1.5
    assert (np.diff(arrivals) >= 0).all()


@pytest.mark.parametrize("tau", [0.0, 0.1, 0.35, 0.7, 1.0])
def test_noise_hits_the_tau_asked_for(tau):
    found = kendalltau(workload.noisy_scores(lengths(), tau, rng(3)), lengths()).statistic
    assert found == pytest.approx(tau, abs=0.03 if tau == 0.0 else 0.005)


def test_calibrated_forecasts_cover_what_they_promise():
    output = lengths(8000)
    scores = workload.noisy_scores(output, 0.4, rng(3))
    known, new = slice(0, 4000), slice(4000, 8000)
    forecasts = workload.calibrated(scores[new], scores[known], output[known])
    for level in (0.1, 0.5, 0.9):
        below = np.mean(
            [y <= f.quantile(level) for y, f in zip(output[new], forecasts, strict=True)]
        )
        assert below == pytest.approx(level, abs=0.03)


def test_calibrated_pure_noise_is_flat():
    output = lengths(8000)
    scores = workload.noisy_scores(output, 0.0, rng(3))
    forecasts = workload.calibrated(scores[4000:], scores[:4000], output[:4000])
    medians = np.array([forecast.median for forecast in forecasts])
    assert medians.max() / medians.min() < 1.6


def test_rate_fills_the_share_of_time_asked_for():
    cost = CostModel(base=0.03, decode=0.002, prefill=0.0007)
    drawn = Lengths(np.full(2000, 30), lengths())
    work = sum(cost.work(30, int(output), 8) for output in drawn.output_tokens)
    assert drawn.rate_at(0.9, cost, 8) * work / 2000 == pytest.approx(0.9)


def test_names_what_is_wrong():
    with pytest.raises(ValueError, match="at least 1"):
        Lengths(np.array([1]), np.array([0]))
    with pytest.raises(ValueError, match="one size"):
        Lengths(np.array([1, 2]), np.array([1]))
    with pytest.raises(ValueError, match="tau"):
        workload.noisy_scores(lengths(), 1.5, rng())
    with pytest.raises(ValueError, match="burstiness"):
        workload.renewal(5, 1.0, 0.0, rng())
    with pytest.raises(ValueError, match="swing"):
        workload.waves(5, 1.0, 60.0, 1.5, rng())
    with pytest.raises(ValueError, match="one size"):
        workload.requests(np.zeros(2), Lengths(np.array([1]), np.array([1])))
