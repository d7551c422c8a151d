"""FastServe's queue on schedules worked out by hand."""

import math

import pytest

from engine.core.costs import CostModel
from engine.core.policies import Mlfq, MlfqConfig, Starvation
from tests.engine.core.policy_parts import one_slot, running, waiting

SECOND = CostModel(base=1.0, decode=0.0, prefill=0.0)  # any step takes one second
PREFILL = CostModel(base=1.0, decode=0.0, prefill=0.5)
CALM = MlfqConfig(quantum=1.0, starvation=math.inf)


def test_quanta_of_1_2_and_4_tokens():
    policy = Mlfq(CALM, SECOND, 1)
    requests = [
        waiting("a", 0.0, true=5),
        waiting("b", 0.0, true=2),
        waiting("c", 4.0, true=1),
    ]
    # a and b use up the first level in one token each, a the second one in two; c enters above
    # both, then b goes on in the second level before a in the third.
    assert one_slot(policy, requests) == "abaacbaa"


def test_a_newcomer_preempts_at_the_next_token():
    policy = Mlfq(CALM, SECOND, 1)
    requests = [waiting("a", 0.0, true=6), waiting("b", 2.0, true=1)]
    assert one_slot(policy, requests) == "aabaaaa"


def test_first_come_first_served_within_a_level():
    policy = Mlfq(CALM, SECOND, 1)
    requests = [waiting(name, i * 0.1, true=3) for i, name in enumerate("abc")]
    assert one_slot(policy, requests) == "abcaabbcc"


@pytest.mark.parametrize(
    ("prompt", "level", "tokens"),
    [
        (1, 1, 2),  # 1.5 s of prefill, 2 in the second level: the second token ends at 2.5 s
        (2, 1, 1),  # 2 s use it up
        (5, 2, 2),  # 3.5 s of 4
        (6, 2, 1),
        (7, 3, 5),  # 4.5 s of 8: four more tokens make 8.5
    ],
)
def test_joins_where_the_prefill_fits(prompt, level, tokens):
    policy = Mlfq(CALM, PREFILL, 1)
    fresh = waiting("a", 3.0, prompt)
    assert policy.key(fresh) == (level, 3.0)
    assert policy.rekey_after(fresh) == tokens


def test_sinks_level_by_level_at_a_single_token():
    policy = Mlfq(CALM, SECOND, 1)
    levels = [policy.key(running("a", tokens))[0] for tokens in range(9)]
    assert levels == [0, 1, 1, 2, 2, 2, 2, 3, 3]
    assert [policy.rekey_after(running("a", tokens)) for tokens in range(5)] == [1, 2, 1, 4, 3]


def test_time_is_that_of_steps_of_a_full_batch():
    cost = CostModel(base=0.01, decode=0.01, prefill=0.0, context=0.0001)
    policy = Mlfq(MlfqConfig(quantum=0.2, starvation=math.inf), cost, 4)
    # 10 ms + 4 · 10 ms + 4 · 100 tokens of context · .1 ms = 90 ms a token; prefill 10 ms.
    assert policy.rekey_after(waiting("a", prompt=100)) == 1 + math.ceil(0.19 / 0.09)
    # In the next level, entered with 4 tokens, 4 · 104 tokens of context are attended to.
    assert policy.rekey_after(running("a", 4, prompt=100)) == math.ceil(0.4 / (0.05 + 0.0416))


def test_quanta_of_whole_steps_are_not_lengthened_by_rounding():
    policy = Mlfq(MlfqConfig(quantum=0.3, starvation=math.inf), CostModel(0.1, 0.0, 0.0), 1)
    assert policy.rekey_after(waiting("a")) == 3
    assert policy.rekey_after(running("a", 3)) == 6


def test_the_starved_run_in_the_first_level_again():
    policy = Mlfq(MlfqConfig(quantum=1.0, starvation=4.0), SECOND, 1)
    assert policy.starvation == Starvation(seconds=4.0)
    requests = [waiting("a", 0.0, true=4)]
    requests += [waiting(name, 1.0 + i, true=1) for i, name in enumerate("bcdefgh")]
    # a waits from second 1 on, is promoted at second 5 and first there as the oldest, for one
    # token; from second 6 on it waits again until the others are done.
    assert one_slot(policy, requests) == "abcdeafghaa"


def test_forgets_those_that_ended():
    policy = Mlfq(None, SECOND, 1)
    request = running("a", 40)
    assert policy.key(request)[0] > 0
    policy.starved(request)
    assert policy.key(request)[0] == 0
    policy.observe(request, 1.0)
    assert policy.key(request)[0] > 0


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"quantum": 0.0}, "quantum"),
        ({"quantum": math.inf}, "quantum"),
        ({"ratio": 1.0}, "ratio"),
        ({"starvation": 0.0}, "starvation"),
        ({"starvation": math.nan}, "starvation"),
    ],
)
def test_config_names_the_field(fields, named):
    with pytest.raises(ValueError, match=named):
        MlfqConfig(**fields)
