"""The published shapes on a small engine."""

import pytest

from engine.bench import paper
from engine.bench.contest import POLICIES, Contest, PaperConfig
from tests.engine.bench.world import TINY, lengths

CONFIG = PaperConfig(
    burst=100,
    rates=(0.5, 20.0),
    seconds=6.0,
    samples=150,
    first=20,
    loads=(0.3, 1.0, 2.0),
    load_requests=60,
    level=5.0,
    bucket=60,
)


@pytest.fixture(scope="module")
def found():
    done = []
    result = paper.study(CONFIG, lengths(), TINY, range(1), progress=done.append)
    assert done == list(range(1, paper.runs(CONFIG, 1) + 1))
    return result


def gains(rows):
    return {row.policy: row.gain.median for row in rows}


def test_whoever_knows_more_gains_more_in_a_burst(found):
    burst = gains(found.burst)
    assert set(burst) == set(POLICIES)
    assert burst["fcfs"] == 1.0
    assert burst["class-10"] < burst["ranked"]
    assert burst["oracle"] > 1.5


def test_without_a_queue_no_order_gains(found):
    assert all(gain == pytest.approx(1.0, abs=0.05) for gain in gains(found.poisson[0.5]).values())
    assert gains(found.poisson[20.0])["oracle"] > 1.5


def test_the_first_samples_come_sooner_when_short_ones_go_first(found):
    assert found.first["fcfs"].median == 1.0
    assert found.first["oracle"].median > 1.5
    assert found.first_seconds["oracle"].median < found.first_seconds["ranked"].median


def test_the_same_latency_is_kept_up_to_a_higher_rate(found):
    sustained = {row.policy: row for row in found.sustained}
    assert sustained["fcfs"].at_mean.median == 1.0
    assert sustained["oracle"].at_mean.median >= 1.0


def test_buckets_may_be_right_and_say_little(found):
    assert found.class_right > 0.6
    assert found.class_tau < CONFIG.tau - 0.05


def test_every_policy_meets_the_same_traffic():
    contest = Contest(CONFIG, lengths(), TINY)
    fcfs, again = (contest.run((("burst", 0.0), "fcfs", 3)) for _ in range(2))
    assert fcfs == again
    assert contest.run((("burst", 0.0), "fcfs", 4)) != fcfs


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("burst", 1), ("first", 0), ("rates", (2.0, 1.0)), ("loads", ()), ("seconds", 0.0),
        ("level", 1.0), ("bucket", 0), ("policies", ("fcfs", "lifo")), ("policies", ("ltr",)),
    ],
)  # fmt: skip
def test_mistakes_are_named(field, value):
    with pytest.raises(ValueError, match=field):
        PaperConfig(**{field: value})
