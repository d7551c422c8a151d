"""Shortest first by what is known: true lengths, or the prompt; and strict classes."""

import pytest

from engine.core.costs import CostModel
from engine.core.policies import (
    Granularity,
    Priority,
    PriorityConfig,
    PromptSjf,
    Size,
    Sjf,
    Srpt,
)
from tests.engine.core.policy_parts import one_slot, running, waiting

COST = CostModel(base=0.0, decode=0.001, prefill=0.0005)


def test_sjf_finishes_what_it_began():
    requests = [waiting("a", 0.0, true=5), waiting("b", 1.0, true=3), waiting("c", 2.0, true=1)]
    assert one_slot(Sjf(), requests) == "aaaaacbbb"


def test_srpt_preempts_for_a_shorter_rest():
    requests = [waiting("a", 0.0, true=5), waiting("b", 1.0, true=3), waiting("c", 2.0, true=1)]
    assert one_slot(Srpt(Granularity(granularity=1)), requests) == "abcbbaaaa"


def test_srpt_looks_at_what_is_left_at_its_granularity():
    late = [waiting("a", 0.0, true=10), waiting("b", 8.0, true=5)]
    assert one_slot(Srpt(Granularity(granularity=4)), late) == "aaaaaaaaaabbbbb"
    policy = Srpt()
    # Keyed at the first token, which ends the prefill, then at each multiple of 16.
    assert [policy.rekey_after(running("a", n, true=90)) for n in (0, 1, 15, 16)] == [1, 15, 1, 16]
    assert [policy.key(running("a", n, true=90))[0] for n in (0, 15, 16)] == [90, 90, 74]


def test_whoever_just_lost_its_slot_does_not_take_it_back_at_once():
    requests = [waiting("a", 0.0, true=40), waiting("b", 5.0, true=39)]
    # Five tokens do not count yet, so a is the longer one, also when keyed as it stops.
    assert one_slot(Srpt(), requests) == "a" * 5 + "b" * 39 + "a" * 35


def test_srpt_counts_what_must_be_computed_again():
    policy = Srpt(Granularity(1), Size(COST, 1))
    kept = running("a", 100, true=130)
    assert policy.key(kept)[0] == pytest.approx(0.030)
    kept.computed_tokens = 0
    assert policy.key(kept)[0] == pytest.approx(110 * 0.0005 + 0.030)


def test_true_sizes_include_the_prompt():
    talk = waiting("a", 0.0, prompt=10, true=100)
    summary = waiting("b", 1.0, prompt=1000, true=50)
    assert Sjf().key(summary) < Sjf().key(talk)
    for policy in (Sjf(COST), Srpt(size=Size(COST, 1))):
        assert policy.key(talk) < policy.key(summary)


@pytest.mark.parametrize(("policy", "name"), [(Sjf(), "sjf"), (Srpt(), "srpt")])
def test_oracles_refuse_requests_of_unknown_length(policy, name):
    with pytest.raises(ValueError, match=f"policy {name} orders by true lengths"):
        policy.key(waiting("a"))


def test_prompt_sjf_reads_the_prompt_alone():
    requests = [
        waiting("a", 0.0, prompt=3, true=2),
        waiting("b", 0.1, prompt=9, true=1),
        waiting("c", 0.2, prompt=4, true=3),
    ]
    assert one_slot(PromptSjf(), requests) == "aacccb"


def test_classes_go_in_order_and_preempt_when_told_to():
    def requests():
        return [
            waiting("a", 0.0, true=3, priority=1),
            waiting("b", 1.0, true=2, priority=1),
            waiting("c", 1.5, true=2, priority=-5),
        ]

    assert one_slot(Priority(), requests()) == "aaaccbb"
    assert one_slot(Priority(PriorityConfig(preempts=True)), requests()) == "aaccabb"
    assert not Priority().preempts


def test_granularity_is_named():
    with pytest.raises(ValueError, match="granularity"):
        Granularity(granularity=0)
