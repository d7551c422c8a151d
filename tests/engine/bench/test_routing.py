"""Replicas behind routers, on small engines."""

import numpy as np
import pytest

from engine.bench import routing
from engine.bench.routing import RoutingConfig, conversations
from tests.engine.bench.world import TINY, lengths

CONFIG = RoutingConfig(replicas=3, requests=240, load=0.8, think=5.0, system=0, context=2048)


@pytest.fixture(scope="module")
def rows():
    done = []
    found = routing.study(CONFIG, lengths(), TINY, range(2), progress=done.append)
    assert done == list(range(1, 17))
    return {(row.traffic, row.router): row for row in found}


def test_the_first_router_is_what_others_are_compared_with(rows):
    for traffic in (routing.SINGLE, routing.SESSIONS):
        assert rows[traffic, "round_robin"].p99_e2el.median == 1.0


def test_looking_at_the_load_leaves_nobody_idle(rows):
    blind = rows[routing.SINGLE, "round_robin"]
    for router in ("least_outstanding", "least_predicted"):
        assert rows[routing.SINGLE, router].mean_ttft.median < 1.0
        assert rows[routing.SINGLE, router].utilisation.median > blind.utilisation.median


def test_a_turn_is_cheap_where_its_beginning_is_known(rows):
    blind, affine = (rows[routing.SESSIONS, name] for name in ("round_robin", "prefix_affine"))
    assert affine.hits.median > blind.hits.median + 0.1
    assert affine.mean_ttft.median < 1.0
    assert rows[routing.SINGLE, "prefix_affine"].hits.median == 0.0


def test_conversations_repeat_what_was_said():
    sessions, new = conversations(lengths(), 50, 4.0, 600, np.random.default_rng(1))
    prompts, outputs = sessions.lengths.prompt_tokens, sessions.lengths.output_tokens
    assert (prompts + outputs).max() <= 600
    same = np.diff(sessions.session) == 0
    grown = prompts[1:] - (prompts + outputs)[:-1]
    assert (grown[same] == new.prompt_tokens[1:][same]).all()
    assert 1.5 < len(sessions) / sessions.count < 4.5


def test_mistakes_are_named():
    for field, value in (
        ("replicas", 0), ("requests", 1), ("load", 0.0), ("turns", 0.5), ("routers", ("dice",)),
        ("routers", ()), ("context", 0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=field.rstrip("s")):
            RoutingConfig(**{field: value})
    with pytest.raises(ValueError, match="context"):
        conversations(lengths(), 5, 2.0, 1, np.random.default_rng(1))
