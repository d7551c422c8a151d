"""What holds of every policy, and how they are asked for by name."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import policies
from engine.core.costs import CostModel
from engine.core.policies import DESCRIPTIONS, NAMES, BoostConfig, LtrConfig, TieConfig, make
from engine.core.request import Request, Status
from ranker.types import LEVELS, FinishReason, Forecast

COST = CostModel(base=0.03, decode=0.002, prefill=0.0007, context=1e-7)

forecasts = st.none() | st.lists(
    st.floats(0.0, 1e5), min_size=len(LEVELS), max_size=len(LEVELS)
).map(lambda drawn: Forecast(sum(drawn), tuple(sorted(drawn)), "ranker", "1"))


@st.composite
def requests(draw):
    """In any state that a scheduler may ask a key in."""
    request = Request(
        id=draw(st.text(min_size=1, max_size=3)),
        arrival=draw(st.floats(0.0, 2e9)),
        prompt_tokens=draw(st.integers(1, 100_000)),
        forecast=draw(forecasts),
        priority=draw(st.integers(-5, 5)),
        output_tokens=draw(st.integers(0, 100_000)),
        status=draw(st.sampled_from([Status.WAITING, Status.RUNNING])),
    )
    request.true_tokens = request.output_tokens + draw(st.integers(1, 1000))
    request.computed_tokens = draw(st.sampled_from([0, max(0, request.total_tokens - 1)]))
    return request


def built(name, cost=COST):
    return make(name, cost=cost, batch=8)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(drawn=st.lists(requests(), min_size=1, max_size=8, unique_by=lambda request: request.id))
def test_keys_are_alike_ordered_and_repeatable(name, drawn):
    one, other = built(name), built(name)
    starved = []
    for policy in (one, other):
        for request in drawn:
            policy.arrived(request)
        for request in drawn[::2]:
            policy.starved(request)
        starved.append([policy.key(request) for request in drawn])
    assert starved[0] == starved[1]
    assert starved[0] == [one.key(request) for request in drawn]
    assert len({len(key) for key in starved[0]}) == 1
    assert not any(math.isnan(part) for key in starved[0] for part in key)
    for request in drawn:
        after = one.rekey_after(request)
        assert after is None or after >= 1


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"boost"}))
def test_nothing_is_kept_of_those_that_ended(name):
    policy = built(name)
    forecast = Forecast(1.0, tuple(100.0 * p for p in LEVELS), "ranker", "1")
    for i in range(300):
        request = Request(str(i), float(i), 10, forecast if i % 3 else None, 400)
        policy.arrived(request)
        policy.key(request)
        policy.starved(request)
        request.status, request.output_tokens = Status.RUNNING, 300
        policy.key(request)
        policy.rekey_after(request)
        request.finish_reason = FinishReason.STOP
        policy.observe(request, i + 1.0)
    kept = [value for value in vars(policy).values() if isinstance(value, dict | list | set)]
    assert not any(kept)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"sjf", "srpt", "prompt_sjf", "priority"}))
def test_without_forecasts_the_order_is_of_arrival(name):
    policy = built(name)
    drawn = [Request(str(i), float(i), 10 + (7 * i) % 5) for i in range(40)]
    for request in drawn:
        policy.arrived(request)
    assert sorted(drawn, key=policy.key) == drawn


GOLDEN = {
    "fcfs": "abcdefghijkl",
    "sjf": "lcfhgbekidaj",
    "srpt": "lcfhgbekidaj",
    "prompt_sjf": "abcdefghijkl",
    "ranked": "clhfiebkgadj",
    "ltr": "clhfiebkgadj",
    "srpt_predicted": "clhfiebkgadj",
    "gittins": "clhfiebkgadj",
    "tie": "clhfiebkgadj",
    "mlfq": "abcdefghijkl",
    "priority": "cfilbehkadgj",
}


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden_order_of_a_burst(name):
    """Twelve requests that wait; every third is short, forecasts are wrong about two."""
    said = [300, 260, 8, 310, 240, 15, 280, 12, 20, 330, 270, 9]
    true = [310, 240, 10, 300, 250, 12, 30, 14, 290, 340, 260, 8]
    drawn = [
        Request(
            id="abcdefghijkl"[i],
            arrival=0.25 * i,
            prompt_tokens=20 + 5 * i,
            forecast=Forecast(
                float(said[i]), tuple(said[i] * (0.6 + 0.8 * p) for p in LEVELS), "golden", "1"
            ),
            true_tokens=true[i],
            priority=2 - i % 3,
        )
        for i in range(12)
    ]
    policy = make(name, cost=COST, batch=2)
    for request in drawn:
        policy.arrived(request)
    assert "".join(r.id for r in sorted(drawn, key=policy.key)) == GOLDEN[name]


def test_every_name_is_built_described_and_its_own():
    assert set(DESCRIPTIONS) == set(NAMES)
    assert all(len(line) < 140 and "\n" not in line for line in DESCRIPTIONS.values())
    assert [built(name).name for name in NAMES] == list(NAMES)
    assert "starvation, period" in DESCRIPTIONS["ltr"]


def test_those_that_preempt():
    found = {name for name in NAMES if built(name).preempts}
    assert found == {"srpt", "srpt_predicted", "gittins", "ltr", "mlfq"}
    assert make("priority:preempts=yes").preempts


def test_options_reach_the_policy():
    assert make("ltr:starvation=100,period=5").config == LtrConfig(100, 5)
    assert make("mlfq: quantum = 0.1 , starvation=inf", cost=COST).config.quantum == 0.1
    assert make("tie:beta=none,every=60").config == TieConfig(every=60.0)
    boost = make("boost:tier=0.05,k=8", cost=COST, setting="safe")
    assert boost.config == BoostConfig(tier=0.05, k=8.0)
    assert make("boost:k=none", cost=COST, setting="fast").config.k is None
    assert make("boost-safe", cost=COST).config == BoostConfig.of("safe")
    wider = make("boost-fast:tier=0.2", cost=COST, setting="safe").config
    assert wider == replace(BoostConfig.of("fast"), tier=0.2)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lifo", "policy must be one of fcfs, sjf, .*got 'lifo'"),
        ("fcfs:tier=1", "policy fcfs has no option 'tier'; it has no options"),
        ("ltr:quantum=1", "no option 'quantum'; its options are starvation, period"),
        ("ltr:period=1.5", "option period of policy ltr must be a whole number, got '1.5'"),
        ("ltr:period=0", "period must be at least 1"),
        ("tie:beta=nan", "option beta of policy tie must be a number"),
        ("tie:every=long", "option every of policy tie must be a number, got 'long'"),
        ("gittins:granularity=none", "whole number, got 'none'"),
        ("priority:preempts=maybe", "must be yes or no, got 'maybe'"),
        ("ltr:period=1,period=2", "has option period twice"),
        ("ltr:", "options look like ltr:key=value"),
        ("ltr:period", "options look like ltr:key=value, got 'period'"),
        ("boost-reckless", "safe or fast, got 'reckless'"),
        ("fcfs-safe", "policy must be one of"),
    ],
)
def test_what_is_wrong_is_named(name, said):
    with pytest.raises(ValueError, match=said):
        make(name, cost=COST)


@pytest.mark.parametrize("name", ["boost", "mlfq"])
def test_a_missing_cost_model_is_named(name):
    with pytest.raises(ValueError, match=f"policy {name} needs cost"):
        make(name)


@pytest.mark.parametrize("name", NAMES)
def test_oracles_are_refused_when_serving(name):
    if name not in ("sjf", "srpt"):
        assert make(name, cost=COST, batch=4, serving=True).name == name
        return
    with pytest.raises(ValueError, match=f"policy {name} needs true lengths"):
        make(name, cost=COST, batch=4, serving=True)


def test_a_list_of_names_may_have_options_with_commas():
    found = policies.names(" fcfs, ltr:starvation=100,period=5 ,srpt,boost-safe:tier=0.05,k=8,,")
    assert found == ["fcfs", "ltr:starvation=100,period=5", "srpt", "boost-safe:tier=0.05,k=8"]
    assert policies.names("") == []
