"""Clients that misbehave by the hundred, against the real engine: nothing is left of them."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from engine.core.request import Request
from engine.native import library
from serving.soak.acts import Kind, draw
from serving.soak.config import SoakConfig
from serving.soak.residue import Residue, per_request, residue
from serving.soak.run import soak


@pytest.mark.slow
async def test_nothing_is_left_of_600_requests(request: pytest.FixtureRequest) -> None:
    """10,000 of them: ``shortfirst bench soak``."""
    default = request.config.rootpath / ".cache" / "models"
    cache = os.environ.get("SHORTFIRST_TEST_CACHE", default)
    native = library.load(type(default)(cache) / "native")
    # Torch keeps memory for each new shape of a step, hundreds of MiB before it has seen them all.
    config = SoakConfig(600, growth_mib=32.0 if native else 1024.0)
    over: list[None] = []
    report = await soak(config, native, lambda: over.append(None))
    assert report.wrong == {}
    assert report.leaks == []
    assert report.sound
    assert len(over) == sum(report.results.values()) == 600
    # What it is about did happen.
    for wanted in ("http answer: ok", "grpc answer: ok", "http leave: left", "grpc leave: left",
                   "http bad: refused", "grpc bad: refused"):  # fmt: skip
        assert report.results[wanted] > 10, wanted
    assert report.stats.scheduler.preempted_for_memory > 0
    assert report.stats.scheduler.preempted_for_order > 0
    assert report.stats.scheduler.swapped_tokens > 0
    assert report.stats.scheduler.memory.prefix_hit_tokens > 0
    assert sum(lane.refused for lane in report.stats.lanes) > 0
    assert report.stats.failed_steps > 0


def test_the_same_seed_draws_the_same_acts_of_every_kind() -> None:
    first, second = random.Random(3), random.Random(3)
    acts = [draw(first) for _ in range(500)]
    assert acts == [draw(second) for _ in range(500)]
    assert set(Counter(act.kind for act in acts)) == set(Kind)
    assert all(act.protocol == "grpc" for act in acts if act.deadline_s is not None)


async def test_objects_that_were_there_before_the_server_are_not_its_own() -> None:
    elsewhere = [Request(str(number), 0.0, 1) for number in range(3)]
    known = per_request()
    assert known["Request"] >= len(elsewhere)
    own = Request("own", 0.0, 1)
    assert residue({}, known).objects["Request"] == 1, own


def test_what_is_left_is_told_in_words() -> None:
    before = Residue(3, 4, 5, {"Stream": 0}, {"kv_cache_usage_ratio": 0.0})
    after = Residue(4, 4, 9, {"Stream": 7}, {"kv_cache_usage_ratio": 0.5})
    assert before.beyond(before) == []
    assert after.beyond(before) == [
        "tasks: 3 before, 4 after",
        "files: 5 before, 9 after",
        "Stream objects: 7",
        "kv_cache_usage_ratio: 0.5",
    ]


@pytest.mark.parametrize("wrong", [{"requests": 3}, {"clients": 0}, {"growth_mib": 0.0}])
def test_a_bad_setting_is_named(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SoakConfig(**wrong)
