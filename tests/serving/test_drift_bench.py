"""The drift benchmark on invented traffic: streams, questions, commands."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from serving.cli import drift, drift_bench, drift_simulate
from serving.drift_bench.bench import MONITOR, Bench, Delays, first
from serving.drift_bench.config import BenchConfig
from serving.drift_bench.deck import Deck
from serving.drift_bench.half_loss import half_lost
from serving.drift_bench.pool import Pool
from serving.drift_bench.questions.abrupt import abrupt
from serving.drift_bench.questions.censoring import censoring
from serving.drift_bench.questions.gradual import gradual
from serving.drift_bench.questions.scale import scale
from serving.drift_bench.questions.stationary import between, stationary
from serving.drift_bench.questions.targets import strength
from serving.drift_bench.questions.tenants import tenants
from serving.drift_bench.run import QUESTIONS, cells
from serving.drift_bench.streams import Order, StreamConfig, release, topics
from tests.serving.drift_world import make_pool, make_traffic

SMALL = BenchConfig(
    replays=8, arl=20_000.0, before=550, after=500, queued_after=150, stationary=700, mixing=1500,
    tenants=4,
)  # fmt: skip
#: The detectors of the monitor that are cheap to fit and run.
QUICK = ("concordance-cusum", "pit-cusum", "no-drift")


@pytest.fixture(scope="module")
def traffic():
    return make_traffic()


@pytest.fixture(scope="module")
def bench():
    return Bench(SMALL, QUICK)


def test_a_pool_survives_on_disk_and_damage_is_noticed(tmp_path):
    pool, path = make_pool(40, 0.4, 1), tmp_path / "réserve 1" / "a.npz"
    assert Pool.read(path) is None
    pool.write(path)
    found = Pool.read(path)
    np.testing.assert_array_equal(found.tokens, pool.tokens)
    np.testing.assert_array_equal(found.quantiles, pool.quantiles)
    path.write_bytes(path.read_bytes()[:100])
    assert Pool.read(path) is None


def test_a_limit_cuts_answers_off_and_a_scale_stretches_them():
    pool = make_pool(300, 0.4, 2)
    cut = pool.served(60)
    assert cut.tokens.max() == 60
    np.testing.assert_array_equal(cut.censored, pool.tokens >= 60)
    twice = pool.served(10**6, 2.0)
    np.testing.assert_array_equal(twice.tokens, 2 * pool.tokens)
    assert twice.tau == pytest.approx(pool.tau)
    assert twice.sample().pit.mean() > pool.sample().pit.mean() + 0.1


@pytest.mark.parametrize("order", [Order.FCFS, Order.SJF])
def test_the_hold_gives_arrival_order_back(order):
    deck = Deck.of(make_pool(300, 0.6, 3))
    rng = np.random.default_rng(4)
    rows = deck.before(400, rng)
    got = release(rows, deck, order, StreamConfig(), rng)
    assert (np.diff(got.place) > 0).all()
    assert got.late == pytest.approx(1 - len(got.place) / 400)
    assert got.late < 0.2
    assert (got.held >= 0).all()
    assert got.held.max() > 0


def test_topics_come_in_bursts_of_like_forecasts():
    deck = Deck.of(make_pool(900, 0.4, 5))
    rows = deck.before(6000, np.random.default_rng(6))
    scores = deck.pool.scores

    def echo(found):
        s = scores[found]
        return float(np.corrcoef(s[:-1], s[1:])[0, 1])

    bursts = topics(rows, scores, StreamConfig(purity=0.9), 7)
    assert abs(echo(rows)) < 0.06
    assert echo(bursts) > 0.4
    np.testing.assert_array_equal(topics(rows, scores, StreamConfig(purity=0.0), 7), rows)


def test_delays_count_to_the_first_alarm():
    alarms = np.zeros((6, 3), np.bool_)
    alarms[2:, 0] = alarms[5, 1] = True
    assert first(alarms).tolist() == [3.0, 6.0, math.inf]
    found = Delays.of(np.array([3.0, 6.0, math.inf]), 0.0)
    assert (found.median, found.p95) == (6.0, math.inf)
    assert found.missed == pytest.approx(1 / 3)


def test_the_interval_of_a_rate_is_the_exact_one():
    # Garwood's interval of a count of 10 is 4.795 to 18.39.
    apart, low, high = between(10, 1000)
    assert apart == 100.0
    assert (low, high) == (
        pytest.approx(1000 / 18.39, rel=1e-3),
        pytest.approx(1000 / 4.795, rel=1e-3),
    )
    assert between(0, 500) == (math.inf, pytest.approx(500 / 3.689, rel=1e-3), math.inf)


@pytest.mark.parametrize(
    ("left", "word"),
    [(-0.2, "strong"), (0.3, "strong"), (0.5, "weak"), (0.6, "between"), (0.75, "harmless")],
)
def test_what_a_shift_owes(left, word):
    assert strength(left) == word


def test_lost_order_is_found_soon_and_no_drift_never(bench, traffic):
    rows = {r.detector: r for r in abrupt(bench, traffic, traffic.shifts[0], Order.INDEPENDENT)}
    found = rows["concordance-cusum"]
    assert found.target == (100.0, 220.0)
    assert found.median < 120
    assert found.missed == 0.0
    assert rows["no-drift"].missed == 1.0
    assert rows["pit-cusum"].target is None
    mild = abrupt(bench, traffic, traffic.shifts[1], Order.INDEPENDENT)[0]
    assert mild.target is None
    assert mild.met is None


def test_behind_an_engine_the_hold_stands_beside_the_delay(bench, traffic):
    row = abrupt(bench, traffic, traffic.shifts[0], Order.SJF)[0]
    assert row.held_p95 >= row.held_median >= 0.0
    assert row.held_p95 > 0.0
    assert row.median <= 150


def test_nothing_happens_while_nothing_changes(bench, traffic):
    for order in (Order.INDEPENDENT, Order.TOPICS):
        row = stationary(bench, traffic, order)[0]
        assert row.outcomes > 0.7 * SMALL.replays * SMALL.stationary
        assert row.alarms <= 2
        assert row.low < row.between


def test_the_tenant_that_changed_is_named(bench, traffic):
    own, together = tenants(bench, traffic, traffic.shifts[0])
    assert own.right >= 0.8
    assert own.median < SMALL.tenants * 150
    assert (together.chart, together.met) == ("all", None)


def test_a_change_of_scale_is_called_one(bench, traffic):
    rows = {r.detector: r for r in scale(bench, traffic, 2.0)}
    assert rows["pit-cusum"].alarmed == 1.0
    assert rows["pit-cusum"].median < 60
    assert rows["concordance-cusum"].alarmed <= 0.25


def test_answers_cut_off_cost_nothing(bench, traffic):
    row = censoring(bench, traffic, 0.2)[0]
    assert row.cut == 0.2
    assert row.median < 1.6 * row.plain
    assert [r.detector for r in censoring(bench, traffic, 0.2)] == ["concordance-cusum", "no-drift"]


def test_a_slow_mixture_is_found_before_half_is_lost(bench, traffic):
    row = gradual(bench, traffic, traffic.shifts[0])[0]
    assert 0 < row.median < row.half < math.inf


def test_half_the_efficiency_is_lost_somewhere_between(traffic):
    usual, lost = traffic.chat.test, traffic.shifts[0].pool
    rng = np.random.default_rng
    share = half_lost(usual, lost, SMALL.streams.engine, rng(1), outcomes=300)
    assert 0.1 < share <= 1.0
    assert half_lost(usual, usual, SMALL.streams.engine, rng(1), outcomes=300) == math.inf


def test_the_same_seed_gives_the_same_numbers_whatever_ran_before(traffic):
    shift = traffic.shifts[0]
    one, two = Bench(SMALL, ("concordance-cusum",)), Bench(SMALL, ("concordance-cusum",))
    tenants(two, traffic, shift)
    assert abrupt(one, traffic, shift, Order.INDEPENDENT) == abrupt(
        two, traffic, shift, Order.INDEPENDENT
    )
    other = Bench(replace(SMALL, seed=1), ("concordance-cusum",))
    assert abrupt(other, traffic, shift, Order.INDEPENDENT) != abrupt(
        one, traffic, shift, Order.INDEPENDENT
    )


def test_the_monitor_is_both_rank_detectors_together(traffic):
    both = Bench(replace(SMALL, replays=4))
    rows = {r.detector: r for r in abrupt(both, traffic, traffic.shifts[0], Order.INDEPENDENT)}
    parts = rows["concordance-cusum"], rows["tau-window"]
    assert rows[MONITOR].median <= min(part.median for part in parts)


def test_names_that_are_not_there_are_refused(traffic):
    with pytest.raises(ValueError, match="no detector 'cusum'"):
        Bench(SMALL, ("cusum",))
    with pytest.raises(ValueError, match="no question 'speed'"):
        list(cells(Bench(SMALL), traffic, ["speed"]))
    for name in ("replays", "tenants", "arl"):
        with pytest.raises(ValueError, match=name):
            replace(SMALL, **{name: 0})
    with pytest.raises(ValueError, match="purity"):
        StreamConfig(purity=1.5)


def test_every_question_has_cells(traffic):
    found = {question for question, _, _ in cells(Bench(SMALL), traffic)}
    assert found == set(QUESTIONS) - {"queued"}  # none of its shifts is in this traffic


@pytest.fixture
def stand_in(monkeypatch, traffic):
    """The commands read no corpus: invented traffic stands in."""
    for module in (drift_bench, drift_simulate):
        monkeypatch.setattr(module, "load", lambda *_: traffic)


def run(*arguments):
    return CliRunner().invoke(drift.app, [*map(str, arguments)])


def test_the_command_prints_a_table_a_question(stand_in):
    small = ["--replays", 4, "--only", "tenants", "--detector", "concordance-cusum"]
    shown = run("benchmark", *small)
    assert shown.exit_code == 0
    assert "right tenant" in shown.stdout
    rows = json.loads(run("benchmark", *small, "--json").stdout)["tenants"]
    assert [row["chart"] for row in rows] == ["own", "all"]
    assert rows[0]["met"] in (True, False)


def test_a_simulation_shows_what_the_monitor_says(stand_in, tmp_path):
    page = tmp_path / "étude 1.html"
    options = ["simulate", "--shift", "lost", "--before", 300, "--after", 400]
    shown = run(*options, "--plot", page)
    assert shown.exit_code == 0
    assert "degraded" in shown.stdout
    assert page.stat().st_size > 100_000
    found = json.loads(run(*options, "--json").stdout)
    alert = next(event for event in found["events"] if event["alert"])
    assert 0 < alert["outcome"] - found["changed"] < 200
    assert found["points"][-1]["state"] in ("degraded", "fcfs")


def test_a_shift_that_is_not_there_is_refused(stand_in):
    failed = run("simulate", "--shift", "weather")
    assert isinstance(failed.exception, ValueError)
    assert "lost" in str(failed.exception)
    assert "--order" in str(run("simulate", "--order", "random").exception)
