"""The gate on live traffic: same rows for both, none of them trained on, and every slice."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from ranker.artifact import ArtifactError
from ranker.types import FinishReason, Forecast
from tests.training.gate.parts import QUICK, Guesser, Shelf, invented
from training.gate import GateError, judge_recent, promote, seen
from training.gate.checks import checks
from training.gate.recent import KIND
from training.sources import Data, Origin
from training.sources.recent import RecencyConfig, Recent, arrival_of

FAST = replace(QUICK, resamples=50, bursts=replace(QUICK.bursts, bursts=2, requests=40))
START = 1_700_000_000.0
TENANTS = ("acme", "acme", "big corp", "")
#: Each second one row, of four tenants' traffic in two lanes.
ROWS = tuple(
    replace(e, split="test", origin=Origin(START + i, TENANTS[i % 4], ("chat", "batch")[i % 2]))
    for i, e in enumerate(invented(800).examples)
)
TRAFFIC = Data("traffic", "made up", ROWS)
RECENT = Recent(Path("o.db"), Path("p.db"), "toy", ROWS, 800, 800, 0)
BEFORE = invented(200, seed=9)  # what the champion was trained on: other prompts


def shelf(champion, challenger, *, trained_on=BEFORE, recency=None) -> Shelf:
    """Version 1 serves; version 2 was trained on outcomes."""
    found = Shelf(BEFORE)
    elsewhere = Data("b", "made up", tuple(
        replace(e, prompt=f"before {e.prompt}") for e in trained_on.examples
    ))  # fmt: skip
    found.aliases["champion"] = found.add(champion, elsewhere)
    data, lineage = RECENT.data(recency or RecencyConfig(held_out=0.5))
    found.add(challenger, data)
    found.told["2"] |= lineage.tags()
    return found


def verdict(champion, challenger, *, recent=RECENT, config=FAST, **parts):
    return judge_recent(shelf(champion, challenger, **parts), "r", "2", recent, config=config)


def failed(found):
    return {check.name: check for check in found.checks if not check.passed}


def test_both_are_asked_about_what_came_after_the_last_row_that_tuned_one():
    class Curious(Guesser):
        def forecast(self, prompts, served_model=""):
            self.asked = list(prompts)
            return super().forecast(prompts)

    old, new = Curious(TRAFFIC, noise=1.0), Curious(TRAFFIC, noise=0.5)
    found = verdict(old, new)
    assert found.passed
    assert (found.rows, found.left_out, found.kind) == (200, 0, KIND)
    assert old.asked == new.asked == [e.prompt for e in ROWS[600:]]
    assert "on 200 recent outcomes;" in found.summary


def test_too_few_that_tuned_nothing_are_judged_with_those_that_did_and_it_is_said():
    recency = RecencyConfig(most_held_out=160)
    found = verdict(Guesser(TRAFFIC, noise=1.0), Guesser(TRAFFIC, noise=0.5), recency=recency)
    assert found.rows == 160
    assert "160 recent outcomes (80 of them tuned version 2" in found.summary
    assert {c.name: c.rows for c in found.checks}["coverage of p50"] == 80


def test_tenants_and_lanes_are_slices_by_order_and_by_worth():
    config = replace(QUICK, slice_rows=50)
    found = verdict(Guesser(TRAFFIC), Guesser(TRAFFIC), config=config)
    names = {c.name: c.rows for c in found.checks}
    assert names["tau-b"] == names["SJF efficiency"] == names["coverage of p50"] == 200
    for part in ("tenant 'acme'", "lane 'chat'", "lane 'batch'"):
        assert names[f"tau-b of {part}"] == names[f"SJF efficiency of {part}"] == 100
    assert names["tau-b of tenant ''"] == names["tau-b of tenant 'big corp'"] == 50


def test_a_tenant_must_not_pay_for_the_others():
    class Unfair(Guesser):
        """Knows all but one tenant better."""

        def forecast(self, prompts, served_model=""):
            of = {e.prompt: e.origin.tenant for e in ROWS}
            return [
                replace(f, score=-f.score) if of[p] == "big corp" else f
                for p, f in zip(prompts, super().forecast(prompts), strict=True)
            ]

    config = replace(FAST, slice_rows=50)
    found = verdict(Guesser(TRAFFIC, noise=1.0), Unfair(TRAFFIC, noise=0.05), config=config)
    assert found.checks[0].passed
    assert not found.passed
    assert "tau-b of tenant 'big corp'" in failed(found)
    assert "tenant 'acme'" not in str(failed(found))


def test_a_worse_challenger_is_refused_with_its_table():
    there = shelf(Guesser(TRAFFIC, noise=0.4), Guesser(TRAFFIC, noise=1.5))
    found = judge_recent(there, "r", "2", RECENT, config=FAST)
    assert {"tau-b", "SJF efficiency"} <= set(failed(found))
    with pytest.raises(GateError, match="orders worse by"):
        promote(there, found, by="ann", now=datetime(2026, 1, 1, tzinfo=UTC))
    assert there.aliases["champion"] == "1"
    (kept,) = there.files.values()
    assert kept["kind"] == KIND
    assert not kept["passed"]


def test_rows_that_either_was_trained_on_are_left_out():
    there = shelf(Guesser(TRAFFIC, noise=1.0), Guesser(TRAFFIC, noise=0.5))
    both = [replace(e, split="train") for e in (*BEFORE.examples, *ROWS[600:650])]
    there.trained_on["1"] = seen(both)
    there.trained_on["2"] = seen([replace(e, split="train") for e in ROWS[640:690]])
    found = judge_recent(there, "r", "2", RECENT, config=FAST)
    assert (found.rows, found.left_out) == (110, 90)


def test_traffic_that_came_since_judges_too_and_only_the_newest():
    later = tuple(
        replace(e, prompt=f"later {e.prompt}", id=f"l{e.id}",
                origin=replace(e.origin, arrival=e.origin.arrival + 1000.0))
        for e in ROWS[:300]
    )  # fmt: skip
    everything = Data("all", "made up", (*ROWS, *later))
    recent = replace(RECENT, rows=everything.examples)
    old, new = Guesser(everything, noise=1.0), Guesser(everything, noise=0.5)
    assert verdict(old, new, recent=recent).rows == 500
    few = replace(FAST, recent_rows=300)
    found = verdict(old, new, recent=recent, config=few)
    assert (found.rows, found.left_out) == (300, 0)
    assert {c.name: c.rows for c in found.checks}["coverage of p90"] == 300


def test_quantiles_are_judged_by_what_so_few_rows_can_tell():
    """Off by 7 points: beyond the bound, and on 50 rows within chance; off by far is refused."""
    fresh = np.zeros(400, np.bool_)
    fresh[-50:] = True
    rows = [replace(e, finish_reason=FinishReason.STOP) for e in ROWS[:400]]
    best = Guesser(TRAFFIC, noise=0.5).forecast([e.prompt for e in rows])
    lengths = np.array([e.output_tokens for e in rows[-50:]])

    def covering(share: float, level: float) -> list[Forecast]:
        """As good an order, with that quantile at what ``share`` of the fresh rows stay below."""
        at = {0.5: 0.5, 0.9: 0.9} | {level: share}
        quantiles = tuple(float(q) for q in np.quantile(lengths, sorted(at.values())))
        return [replace(f, levels=(0.5, 0.9), quantiles=quantiles) for f in best]

    def off(share: float, level: float) -> list[str]:
        found = checks(covering(level, level), covering(share, level), rows, FAST, fresh=fresh)
        return [c.name for c in found if not c.passed]

    assert off(0.58, 0.5) == []
    assert off(0.75, 0.5) == ["coverage of p50"]
    assert off(0.6, 0.9) == ["coverage of p90"]


def test_too_few_since_the_training_says_how_many_and_since_when():
    recency = RecencyConfig(held_out=0.03)
    found = verdict(Guesser(TRAFFIC), Guesser(TRAFFIC), recency=recency)
    assert not found.passed
    assert "24 of these arrived after 2023-11-14T22:26:15+00:00" in found.obstacle
    assert "at least 30 are needed" in found.obstacle
    assert "of which 800 have a prompt" in found.obstacle


@pytest.mark.parametrize(
    ("change", "obstacle"),
    [
        (lambda there: there.told["2"].update(served_model="other"),
         "version 2 forecasts other, the outcomes are those of toy"),
        (lambda there: there.trained_on.update({"2": None}), "version 2 does not say"),
        (lambda there: there.trained_on.update({"1": None}), "version 1 does not say"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_an_obstacle(change, obstacle):
    there = shelf(Guesser(TRAFFIC), Guesser(TRAFFIC))
    change(there)
    found = judge_recent(there, "r", "2", RECENT, config=FAST)
    assert not found.passed
    assert obstacle in found.summary


def test_a_version_of_other_data_is_asked_about_all_rows_it_has_not_seen():
    there = shelf(Guesser(TRAFFIC, noise=1.0), Guesser(TRAFFIC, noise=0.5))
    there.told["2"] = {"served_model": "toy"}
    there.trained_on["2"] = seen([replace(e, split="train") for e in ROWS[:100]])
    found = judge_recent(there, "r", "2", RECENT, config=FAST)
    assert (found.passed, found.rows) == (True, 700)


def test_a_champion_that_does_not_load_gives_way_and_one_that_serves_stays():
    assert verdict(ArtifactError("damaged"), Guesser(TRAFFIC)).passed
    there = shelf(Guesser(TRAFFIC), Guesser(TRAFFIC))
    there.aliases["champion"] = "2"
    assert judge_recent(there, "r", "2", RECENT).summary == "serves already"


def test_arrivals_are_needed():
    with pytest.raises(ValueError, match="not of live traffic"):
        arrival_of(BEFORE.examples[0])
