"""How fast traffic goes stale is for the newest of it to say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ranker.types import FinishReason
from training.half_life import HALF_LIVES, best
from training.lexical_config import LexicalConfig, TreeConfig
from training.retrain import retraining
from training.sources import Example, Origin
from training.sources.lineage import Lineage
from training.sources.recent import RecencyConfig, Recent

QUICK = LexicalConfig(trees=TreeConfig(rounds=20))


FILLER = ("of", "the", "river", "about", "winter", "in", "a", "small", "town", "and", "trade")


def traffic(*parts: tuple[int, bool]) -> Recent:
    """So many rows each in which essays are long and dates short, or the other way round."""
    rng = np.random.default_rng(0)
    rows = []
    for number, essays_are_long in parts:
        for _ in range(number):
            word = ("essay", "date")[rng.integers(2)]
            middle = 400 if (word == "essay") == essays_are_long else 20
            # No numbers: they would tell the time.
            text = " ".join([word, *rng.choice(FILLER, 7)])
            tokens = int(np.ceil(rng.lognormal(np.log(middle), 0.5)))
            at = Origin(float(len(rows)))
            rows.append(Example(text, tokens, FinishReason.STOP, "toy", str(at), "test", origin=at))
    return recent(rows)


def recent(rows: Sequence[Example]) -> Recent:
    return Recent(Path("o.db"), Path("p.db"), "toy", tuple(rows), len(rows), len(rows), 0)


def test_after_a_shift_the_past_is_forgotten_fast():
    plan = retraining(traffic((600, False), (600, True)), RecencyConfig(), choose=QUICK)
    assert list(plan.tried) == [60.0, 250.0, 1000.0]  # longer ones would weigh 960 rows alike
    assert plan.tried[250.0] > plan.tried[1000.0] + 0.1
    chosen = plan.lineage.half_life
    assert chosen < 1000.0
    rows = plan.job.data.split("train")
    assert rows[0].weight == pytest.approx(0.5 ** ((len(rows) - 1) / chosen))
    tags = plan.tags()
    assert tags["outcomes.half_life.250"] == f"{plan.tried[250.0]:.4f}"
    assert Lineage.of(tags) == plan.lineage


def test_a_half_life_that_is_given_is_kept():
    plan = retraining(traffic((400, True)), RecencyConfig(half_life=77.0))
    assert plan.lineage.half_life == 77.0
    assert plan.tried == {}


def test_too_few_rows_are_refused_before_anything_is_tried():
    rows = traffic((400, True)).rows
    again = [replace(e, prompt="the same") if i < 300 or i == 399 else e
             for i, e in enumerate(rows)]  # fmt: skip
    with pytest.raises(
        ValueError,
        match=r"^outcomes of toy: 20 training and 40 validation rows are too few.* wait for",
    ):
        retraining(recent(again), RecencyConfig(), choose=QUICK)


def test_of_equal_ones_the_longest_wastes_least():
    assert best({250.0: 0.3, 1000.0: 0.3, 4000.0: 0.2}) == 1000.0
    assert best({250.0: math.nan, 1000.0: -0.3}) == 1000.0
    assert list(HALF_LIVES) == sorted(HALF_LIVES)
