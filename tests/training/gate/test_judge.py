"""What the gate lets pass, and what it says when it does not."""

from __future__ import annotations

import math

import pytest

from ranker.artifact import ArtifactError
from tests.training.gate.parts import QUICK, Guesser, Shelf, invented
from training.gate import GateConfig, judge
from training.sources import Data

DATA = invented(800)


def verdict(champion, challenger, data=DATA, config=QUICK, **told):
    shelf = Shelf(DATA)
    shelf.aliases["champion"] = shelf.add(champion)
    shelf.add(challenger)
    shelf.told["2"].update(told)
    return judge(shelf, "r", "2", data, config=config)


def failed(found):
    return {check.name: check for check in found.checks if not check.passed}


def test_a_better_order_passes_every_check():
    found = verdict(Guesser(DATA, noise=1.0), Guesser(DATA, noise=0.5))
    assert found.passed
    assert (found.rows, found.left_out) == (400, 0)
    tau, worth = found.checks[:2]
    assert (tau.name, worth.name) == ("tau-b", "SJF efficiency")
    assert 0.0 < tau.low <= tau.difference <= tau.high
    assert tau.difference == pytest.approx(tau.challenger - tau.champion)
    assert worth.challenger > worth.champion
    assert {"tau-b of code", "coverage of p50", "coverage of p90"} <= {c.name for c in found.checks}
    assert "checks passed" in found.summary


def test_the_same_ranker_passes_with_no_difference_at_all():
    found = verdict(Guesser(DATA), Guesser(DATA))
    assert found.passed
    assert [(c.difference, c.low, c.high) for c in found.checks[:2]] == [(0.0, 0.0, 0.0)] * 2


def test_a_worse_order_is_refused_with_reasons():
    found = verdict(Guesser(DATA, noise=0.5), Guesser(DATA, noise=1.0))
    assert not found.passed
    assert {"tau-b", "SJF efficiency"} <= set(failed(found))
    assert "orders worse by" in failed(found)["tau-b"].reason
    assert "orders worse by" in found.summary


def test_few_rows_cannot_rule_out_a_loss():
    few = Data("few", "made up", DATA.examples[:80])
    challenger = Guesser(DATA, noise=0.7, noise_on_code=0.8)
    found = verdict(Guesser(DATA), challenger, few, validation_digest=few.digest("validation"))
    tau = found.checks[0]
    assert tau.difference > 0.0 > -0.02 > tau.low
    assert "40 rows cannot rule out a loss" in tau.reason
    assert not found.passed


def test_a_slice_must_not_pay_for_the_average():
    found = verdict(Guesser(DATA, noise=1.0), Guesser(DATA, noise=0.2, noise_on_code=1.3))
    assert not found.passed
    assert list(failed(found)) == ["tau-b of code"]
    assert found.checks[0].passed


def test_small_slices_are_not_judged():
    config = GateConfig(slice_rows=10_000, resamples=100, bursts=QUICK.bursts)
    found = verdict(Guesser(DATA, noise=1.0), Guesser(DATA, noise=0.2, noise_on_code=1.3),
                    config=config)  # fmt: skip
    assert found.passed


def test_quantiles_that_are_off_are_refused_unless_those_that_serve_are_worse():
    honest, off, worse = (Guesser(DATA, noise=n, stretch=s) for n, s in ((1, 1), (0.5, 2), (1, 4)))
    assert set(failed(verdict(honest, off))) == {"coverage of p50", "coverage of p90"}
    assert verdict(worse, off).passed


def test_rows_that_the_champion_was_trained_on_are_left_out():
    turned = Data("turned", "made up", tuple(
        type(e)(**{f: getattr(e, f) for f in e.__slots__} | {"split": "train"})
        if e.split == "validation" and int(e.id) < 400 else e
        for e in DATA.examples
    ))  # fmt: skip
    shelf = Shelf(DATA)
    shelf.aliases["champion"] = shelf.add(Guesser(DATA), turned)
    shelf.add(Guesser(DATA, noise=0.5))
    found = judge(shelf, "r", "2", DATA, config=QUICK)
    assert (found.rows, found.left_out) == (200, 200)
    assert found.passed
    few = judge(shelf, "r", "2", DATA, config=GateConfig(least_rows=300))
    assert not few.passed
    assert "too few to compare" in few.obstacle


def test_a_conversation_that_was_trained_on_is_left_out_too():
    from dataclasses import replace

    talk = [replace(e, conversation=str(i // 4)) for i, e in enumerate(DATA.examples)]
    shelf = Shelf(DATA)
    trained = [replace(e, split="train") for e in talk[:400:4]]
    held = [replace(e, split="validation") for e in talk if e not in trained]
    held_data = Data("held", "made up", tuple(held))
    shelf.aliases["champion"] = shelf.add(Guesser(DATA), Data("t", "made up", tuple(trained)))
    shelf.add(Guesser(DATA, noise=0.5), held_data)
    assert judge(shelf, "r", "2", held_data, config=QUICK).left_out == 300


@pytest.mark.parametrize(
    ("told", "data", "obstacle"),
    [
        ({"validation_digest": "other"}, DATA, "not, or no longer, what version 2 was validated"),
        ({"served_model": "other"}, DATA, "version 1 forecasts toy, version 2 forecasts other"),
        ({}, None, "no held-out rows"),
    ],
)
def test_rows_that_cannot_be_compared_are_an_obstacle(told, data, obstacle):
    found = verdict(Guesser(DATA), Guesser(DATA), data, **told)
    assert not found.passed
    assert obstacle in found.summary


def test_a_champion_that_does_not_say_what_it_saw():
    shelf = Shelf(DATA)
    shelf.aliases["champion"] = shelf.add(Guesser(DATA))
    shelf.add(Guesser(DATA, noise=0.5))
    shelf.trained_on["1"] = None
    assert judge(shelf, "r", "2", DATA, config=QUICK).passed  # the same split of the same data
    shelf.told["1"]["validation_digest"] = "another"
    assert "does not say" in judge(shelf, "r", "2", DATA, config=QUICK).obstacle


def test_a_champion_that_does_not_load_gives_way():
    found = verdict(ArtifactError("damaged"), Guesser(DATA))
    assert found.passed
    assert "does not load" in found.summary


def test_a_ranker_that_says_the_same_of_all_has_no_order():
    class Flat(Guesser):
        def forecast(self, prompts, served_model=""):
            return [type(f)(0.0, f.quantiles, "flat", "1", f.levels)
                    for f in super().forecast(prompts)]  # fmt: skip

    assert verdict(Flat(DATA), Guesser(DATA)).passed
    found = verdict(Guesser(DATA), Flat(DATA))
    assert found.checks[0].challenger == 0.0
    assert not found.passed


def test_answers_of_one_length_tell_nothing():
    alike = Data("alike", "made up", tuple(
        type(e)(e.prompt, 7, type(e.finish_reason).STOP, e.model, e.id, e.split)
        for e in DATA.examples
    ))  # fmt: skip
    found = verdict(Guesser(DATA), Guesser(DATA), alike,
                    validation_digest=alike.digest("validation"))  # fmt: skip
    assert math.isnan(found.checks[0].difference)
    assert not found.passed


@pytest.mark.parametrize("wrong", [{"margin": -0.1}, {"least_rows": 1}, {"resamples": 0}])
def test_bounds_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match=f"gate.{next(iter(wrong))}"):
        GateConfig(**wrong)
