"""How many drafts a step takes: as many as raise tokens per second, of those likeliest to stand."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.costs import CostModel
from engine.core.speculation import Speculation, SpeculationConfig

#: Ten milliseconds whatever it does, and one more for each token beyond the first eight.
KNEE = ((1, 0.010), (8, 0.010), (64, 0.066))
COST = CostModel(base=0.009, decode=0.001, prefill=0.001)


def names(count):
    return [f"r{i}" for i in range(count)]


def chosen(speculation, batch, budget=512):
    return sum(speculation.choose(names(batch), budget).values()) / batch


def test_drafts_while_steps_are_cheap_and_fewer_the_more_run():
    speculation = Speculation(SpeculationConfig(max_drafts=6, steps=KNEE), COST)
    depths = [chosen(speculation, batch) for batch in (1, 2, 4, 8, 16, 32)]
    assert depths[0] == 6
    assert depths == sorted(depths, reverse=True)
    assert depths[-1] < 1
    # Where each token costs as much as the next, only drafts that are sure to stand would pay.
    dear = Speculation(SpeculationConfig(), CostModel(1e-9, 0.001, 0.001))
    assert chosen(dear, 1) == 0


def test_a_draft_model_that_takes_long_drafts_less():
    quick, slow, slower = (
        Speculation(SpeculationConfig(max_drafts=6, steps=KNEE, draft_seconds=seconds), COST)
        for seconds in (0.0, 0.002, 0.02)
    )
    assert chosen(quick, 1) > chosen(slow, 1) > chosen(slower, 1) == 0


def test_what_drafts_promise_must_be_worth_it():
    def taken(margin):
        config = SpeculationConfig(max_drafts=1, steps=((1, 1.0), (2, 1.5)), margin=margin)
        return Speculation(config, COST).choose(["a"], 10)

    # At the rate of the prior, which is rounded down, one draft gives 1.59 tokens for 1.5 s.
    assert taken(0.05) == {"a": 1}
    assert taken(0.07) == {}


def test_a_request_whose_drafts_never_stand_gets_none_and_others_keep_theirs():
    speculation = Speculation(SpeculationConfig(steps=KNEE, probe_every=10**6), COST)
    for _ in range(40):
        for name, count in speculation.choose(["good", "bad"], 100).items():
            speculation.record(name, count, count, count if name == "good" else 0)
    drafts = speculation.choose(["good", "bad", "new"], 100)
    assert drafts["good"] == 4
    assert "bad" not in drafts
    assert drafts["new"] > 0
    # With the request goes what was learnt of it.
    speculation.forget("bad")
    speculation.forget("unknown")
    assert speculation.choose(["good", "bad"], 100)["bad"] > 0


def test_now_and_then_it_looks_whether_the_tide_has_turned():
    speculation = Speculation(SpeculationConfig(probe_every=5), CostModel(1e-9, 0.001, 0.001))
    drafts = [speculation.choose(names(3), 100) for _ in range(10)]
    assert [bool(each) for each in drafts] == [i % 5 == 4 for i in range(10)]
    assert drafts[4] == dict.fromkeys(names(3), 1)
    assert speculation.choose(names(3), 0) == {}
    for _ in range(60):
        speculation.record("r0", 1, 1, 1)
    assert speculation.rate > 0.6


def test_guesses_that_are_not_made_cost_nothing():
    """Three requests in four have nothing to look up: the fourth may draft where all could not."""
    speculation = Speculation(SpeculationConfig(steps=KNEE, probe_every=10**6), COST)
    for _ in range(100):
        for i, name in enumerate(names(8)):
            count = 4 if i % 4 == 0 else 0
            speculation.record(name, 4, count, count)
    sparse = speculation.choose(names(8), 100)
    assert sparse["r0"] == sparse["r4"] == 4


def test_the_budget_of_the_step_is_kept():
    speculation = Speculation(SpeculationConfig(max_drafts=8, steps=KNEE), COST)
    for budget in range(12):
        assert sum(speculation.choose(names(3), budget).values()) <= budget
    assert speculation.choose([], 100) == {}


@given(
    rates=st.lists(st.integers(1, 15), min_size=1, max_size=4),
    knee=st.integers(1, 10),
    slope=st.floats(0.0001, 0.01),
)
def test_no_other_choice_gives_more_tokens_a_second(rates, knee, slope):
    steps = ((1, 0.01), (1 + knee, 0.0101), (100, 0.0101 + slope * (99 - knee)))
    config = SpeculationConfig(
        max_drafts=3, steps=steps, prior=0.0, own_memory=1, probe_every=10**6, margin=0.0
    )
    speculation = Speculation(config, COST)
    for i, rate in enumerate(rates):
        # The mean of the last drafts, with a memory of one, is set in one go.
        speculation.record(f"r{i}", 1, 1, 0)
        speculation._each[f"r{i}"].rate = rate / 16

    def goodput(depths):
        rows = len(rates) + sum(depths)
        (low, least), (high, most) = next(
            pair for pair in itertools.pairwise(steps) if pair[0][0] <= rows <= pair[1][0]
        )
        seconds = least + (most - least) * (rows - low) / (high - low)
        gained = sum(
            (rate / 16) ** depth
            for rate, deepest in zip(rates, depths, strict=True)
            for depth in range(1, deepest + 1)
        )
        return (len(rates) + gained) / seconds

    found = speculation.choose(names(len(rates)), 100)
    depths = tuple(found.get(name, 0) for name in names(len(rates)))
    best = max(goodput(each) for each in itertools.product(range(4), repeat=len(rates)))
    # Requests of one rate are treated alike, so that a choice costs the same for any number.
    if len(set(rates)) == len(rates):
        assert goodput(depths) == pytest.approx(best, rel=1e-9)
    assert goodput(depths) >= goodput((0,) * len(rates))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"max_drafts": 0}, "max_drafts"),
        ({"own_memory": 0}, "own_memory"),
        ({"probe_every": 0}, "probe_every"),
        ({"draft_seconds": -1.0}, "draft_seconds"),
        ({"margin": -0.1}, "margin"),
        ({"prior": 1.0}, "prior"),
        ({"steps": ((2, 0.1), (1, 0.2))}, "steps"),
        ({"steps": ((1, 0.0),)}, "steps"),
    ],
)
def test_a_wrong_field_is_named(fields, field):
    with pytest.raises(ValueError, match=f"speculation.{field} must"):
        SpeculationConfig(**fields)


@pytest.mark.parametrize("counts", [(2, 3, 1), (3, 2, 3), (3, 2, -1)])
def test_more_accepted_than_drafted_is_refused(counts):
    with pytest.raises(ValueError, match="drafted must lie in"):
        Speculation(SpeculationConfig(), COST).record("a", *counts)
