"""Which victim, and how: costs in seconds, and a bound on what one request suffers."""

import pytest

from engine.core.config import PreemptionConfig, SchedulerConfig
from engine.core.costs import CostModel
from engine.core.memory import Memory
from engine.core.preemption import Preemption
from engine.core.request import Request

COST = CostModel(base=0.03, decode=0.002, prefill=0.001, swap=0.0002)


def holding(memory, name, tokens, computed=None, hashes=()):
    request = Request(name, 0.0, tokens, block_hashes=hashes)
    memory.admit(request)
    request.computed_tokens = tokens if computed is None else computed
    memory.record(request)
    return request


def build(mode="auto", cost=COST, host=100):
    config = SchedulerConfig(
        4, 64, 4, 200, host_blocks=host, preemption=PreemptionConfig(mode), cost=cost
    )
    memory = Memory(config)
    return memory, Preemption(config, memory)


@pytest.mark.parametrize(
    ("swap", "swaps"),
    [(0.0002, True), (0.0004999, True), (0.0005001, False)],
    ids=["cheap", "just", "dear"],
)
def test_swapping_costs_both_ways_and_recomputing_once(swap, swaps):
    memory, preemption = build(cost=CostModel(0.03, 0.002, prefill=0.001, swap=swap))
    assert preemption.swaps(holding(memory, "a", 40)) is swaps


def test_what_others_hold_as_well_need_not_be_computed_again():
    memory, preemption = build()
    shared = tuple(range(9))
    first = holding(memory, "a", 40, hashes=shared)
    assert preemption.swaps(first)
    holding(memory, "b", 40, hashes=shared)
    # A tenth of it would be lost, while the host would have to hold it all.
    assert not preemption.swaps(first)


def test_the_cheapest_block_decides_and_then_the_order():
    memory, preemption = build()
    shared = tuple(range(10))
    last, before = (holding(memory, name, 44, hashes=shared) for name in "ab")
    alone = holding(memory, "c", 40)
    # Of a and b only one block each is their own.
    assert preemption.victim([alone, before, last]) is alone
    half = holding(memory, "d", 40, computed=4)
    assert preemption.victim([alone, half]) is half, "less is lost for as many blocks"
    twin = holding(memory, "e", 40)
    assert preemption.victim([twin, alone]) is twin


def test_one_that_lost_its_memory_often_is_spared_while_there_is_another():
    """However many of those stand at the end of the order."""
    memory, preemption = build()
    tired = [holding(memory, f"t{i}", 4) for i in range(30)]
    for request in tired:
        request.evictions = 3
    fresh = holding(memory, "fresh", 4)
    assert preemption.victim([*tired, fresh]) is fresh
    assert preemption.victim(tired) is tired[0], "somebody has to give way"
    assert preemption.victim([]) is None
