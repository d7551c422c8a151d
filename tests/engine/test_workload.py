import numpy as np
import pytest
from scipy.stats import kendalltau, kstest

from engine import workload
from engine.arrivals import Shape
from engine.core.costs import CostModel
from engine.forecasts import Kind, forecasts
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


def test_exact_rates_add_up_as_those_of_vllm_bench_serve():
    arrivals = workload.renewal(500, 4.0, 1.0, rng(), exact=True)
    free = workload.renewal(500, 4.0, 1.0, rng())
    gaps = np.diff(arrivals)
    assert np.allclose(gaps / gaps.mean(), np.diff(free) / np.diff(free).mean())
    assert 120 < arrivals[-1] < 125  # 125 seconds less the first gap, which is cut off


def test_infinite_burstiness_is_evenly_spaced():
    assert np.allclose(np.diff(workload.renewal(50, 4.0, np.inf, rng())), 0.25)


@pytest.mark.parametrize("shape", list(Shape))
def test_ramps_follow_the_number_of_the_request(shape):
    gaps = np.diff(workload.ramp(101, 2.0, 8.0, shape, np.inf, rng()))
    middle = 5.0 if shape is Shape.LINEAR else 4.0
    assert 1 / gaps[0] == pytest.approx(2.0, rel=0.04)
    assert 1 / gaps[49] == pytest.approx(middle)  # the gap before the 51st of 101 requests
    assert 1 / gaps[-1] == pytest.approx(8.0)
    noisy = workload.ramp(4000, 2.0, 8.0, shape, 1.0, rng())
    assert noisy[-1] == pytest.approx(
        workload.ramp(4000, 2.0, 8.0, shape, np.inf, rng())[-1], rel=0.1
    )


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


@pytest.mark.parametrize("kind", list(Kind))
def test_forecasts_by_kind(kind):
    output, known = lengths(3000), lengths(6000)[3000:]
    made = forecasts(kind, output, known, 0.5, rng(5))
    scores = np.array([forecast.score for forecast in made])
    found = 0.0 if kind is Kind.FLAT else kendalltau(scores, output).statistic
    expected = {Kind.TRUTH: 1.0, Kind.FLAT: 0.0}.get(kind, 0.5)
    assert found == pytest.approx(expected, abs=0.03)
    covered = np.mean([y <= f.quantile(0.9) for y, f in zip(output, made, strict=True)])
    honest = {Kind.TRUTH: 1.0, Kind.NOISE: 0.9, Kind.FLAT: 0.9, Kind.OVERCONFIDENT: 0.55}[kind]
    assert covered == pytest.approx(honest, abs=0.06)
    if kind is Kind.FLAT:
        assert all(forecast is made[0] for forecast in made)
    if kind is Kind.TRUTH:
        assert [forecast.median for forecast in made] == list(output)


def test_overconfident_forecasts_are_right_on_the_whole():
    """Their points spread as lengths do: only which request gets which is wrong."""
    output, known = lengths(3000), lengths(6000)[3000:]
    made = forecasts(Kind.OVERCONFIDENT, output, known, 0.0, rng(5))
    points = [forecast.median for forecast in made]
    for level in (0.1, 0.5, 0.9):
        assert np.quantile(points, level) == pytest.approx(np.quantile(known, level), rel=0.15)
    assert all(len(set(forecast.quantiles)) == 1 for forecast in made)


def test_requests_carry_what_they_are_given():
    drawn = Lengths(np.array([3, 4]), np.array([5, 6]))
    made = workload.requests(
        np.array([0.5, 1.5]), drawn, tenants=["a", "b"], lane="chat", prefix="x-"
    )
    assert [(r.id, r.arrival, r.prompt_tokens, r.true_tokens, r.tenant, r.lane) for r in made] == [
        ("x-0", 0.5, 3, 5, "a", "chat"),
        ("x-1", 1.5, 4, 6, "b", "chat"),
    ]
    with pytest.raises(ValueError, match="one size"):
        workload.requests(np.array([0.5, 1.5]), drawn, tenants=["a"])


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
    with pytest.raises(ValueError, match="end"):
        workload.ramp(5, 1.0, 0.0, Shape.LINEAR, 1.0, rng())
    with pytest.raises(ValueError, match="swing"):
        workload.waves(5, 1.0, 60.0, 1.5, rng())
    with pytest.raises(ValueError, match="one size"):
        workload.requests(np.zeros(2), Lengths(np.array([1]), np.array([1])))
