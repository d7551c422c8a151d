"""Tenants and lanes that press on each other, on a small engine."""

import pytest

from engine.bench import fairness, lanes
from engine.bench.fairness import FairnessStudyConfig
from engine.bench.lanes import LanesConfig
from engine.core.lanes import Slo
from tests.engine.bench.world import TINY, lengths


@pytest.fixture(scope="module")
def tenants():
    config = FairnessStudyConfig(requests=240, tenants=4, policies=("fcfs",))
    return {row.means: row for row in fairness.study(config, lengths(), TINY, range(2))}


def test_counters_keep_a_flood_from_the_others(tenants):
    none, counters = tenants["none"], tenants["counters"]
    assert none.others_p99.median > 2.0
    assert counters.others_p99.median < none.others_p99.median / 2
    assert counters.others_mean.median < none.others_mean.median / 2
    assert counters.flooder_mean.median > none.flooder_mean.median


def test_a_budget_keeps_still_more_of_it_from_them(tenants):
    both = tenants["counters and budgets"]
    assert both.others_mean.median < tenants["counters"].others_mean.median
    assert both.flooder_mean.median > tenants["counters"].flooder_mean.median


def test_counters_serve_alike_whoever_asks_for_more(tenants):
    assert tenants["none"].jain.median < 0.9
    assert tenants["counters"].jain.median > 0.95


@pytest.fixture(scope="module")
def ways():
    config = LanesConfig(
        requests=150, token_budget=128, slo=Slo(ttft=2.0), backlog=1.5, chat_policy="fcfs"
    )
    return {row.way: row for row in lanes.study(config, lengths(), TINY, range(2))}


def test_in_one_queue_a_backlog_of_summaries_takes_the_engine_from_chat(ways):
    assert ways["one queue"].attainment.median < 0.8
    assert ways["precedence"].attainment.median > ways["one queue"].attainment.median
    assert ways["precedence"].chat_ttft.median < ways["one queue"].chat_ttft.median


def test_reclaiming_slots_helps_chat_at_the_cost_of_the_batch(ways):
    taken, waited = ways["precedence, reclaim"], ways["precedence"]
    assert taken.chat_ttft.median <= waited.chat_ttft.median
    assert taken.batch_tokens.median <= waited.batch_tokens.median * 1.02


def test_the_batch_gets_what_chat_leaves(ways):
    assert ways["chat alone"].batch_tokens.median == 0.0
    for way in ("one queue", "shares", "precedence"):
        assert 0.1 < ways[way].batch_tokens.median < 1.0


def test_mistakes_are_named():
    for field, value in (
        ("tenants", 1), ("requests", 2), ("load", 0.0), ("flood", 0.5), ("greed", (0.5, 2.0)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=field):
            FairnessStudyConfig(**{field: value})
    for field in ("load", "backlog", "share"):
        with pytest.raises(ValueError, match=field):
            LanesConfig(**{field: 0.0})
    for study, config in ((fairness.study, FairnessStudyConfig()), (lanes.study, LanesConfig())):
        with pytest.raises(ValueError, match="seeds"):
            study(config, lengths(), TINY, [])
