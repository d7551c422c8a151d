"""Champion and challenger on the same requests: joining, bounds, and the statistics."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from drift.comparison import Pair, Rivals, Verdict, compared
from drift.shadow import Shadow, ShadowConfig
from ranker.types import FinishReason, Outcome

RIVALS = Rivals("m", "length-ranker", "1", "2")


def outcome(request_id: str, tokens: int = 5, **more: object) -> Outcome:
    values = {"finish_reason": FinishReason.STOP, "arrival": 0.0, "finished": 1.0, **more}
    return Outcome(request_id, "m", tokens, **values)  # type: ignore[arg-type]


def drawn(n: int, champion: float, challenger: float, seed: int = 0, **more: object) -> list[Pair]:
    """Lengths, and scores that see them through noise; more noise orders worse."""
    rng = np.random.default_rng(seed)
    length = rng.lognormal(4.0, 1.0, n)
    old, new = (np.log(length) + rng.normal(0.0, noise, n) for noise in (champion, challenger))
    return [
        Pair(float(a), float(b), int(t) + 1, False, **more)  # type: ignore[arg-type]
        for a, b, t in zip(old, new, length, strict=True)
    ]


def fed(pairs: list[Pair], config: ShadowConfig | None = None) -> Shadow:
    shadow = Shadow(RIVALS, config)
    for i, pair in enumerate(pairs):
        shadow.asked(str(i), pair.champion, float(i))
        shadow.scored(str(i), pair.challenger)
        shadow.ended(outcome(str(i), pair.tokens, lane=pair.lane, tenant=pair.tenant))
    return shadow


@given(st.permutations(["scored", "ended"]), st.floats(-9, 9), st.floats(-9, 9), st.integers(0, 99))
def test_a_pair_is_complete_whichever_comes_last(order, champion, challenger, tokens):
    shadow = Shadow(RIVALS)
    shadow.asked("a", champion, 0.0)
    for what in order:
        assert shadow.pairs == 0
        if what == "scored":
            shadow.scored("a", challenger)
        else:
            shadow.ended(outcome("a", tokens, tenant="t", lane="l"))
    assert shadow.window() == (Pair(champion, challenger, tokens, False, "l", "t"),)
    assert shadow.waiting == 0
    shadow.ended(outcome("a", tokens))  # a retry
    assert shadow.pairs == 1


def test_what_is_not_known_is_no_matter():
    shadow = Shadow(RIVALS)
    shadow.ended(outcome("never asked"))
    shadow.scored("never asked", 1.0)
    shadow.missed("never asked")
    assert (shadow.pairs, shadow.waiting, shadow.forgotten) == (0, 0, 0)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60), st.integers(1, 8))
def test_what_waits_is_bounded_by_number_and_age(times, most):
    shadow = Shadow(RIVALS, ShadowConfig(waiting=most, age_s=20.0))
    now = 0.0
    for i, gap in enumerate(times):
        now += gap
        shadow.asked(str(i), 0.0, now)
        assert 1 <= shadow.waiting <= most
    assert shadow.waiting + shadow.forgotten == len(times)
    shadow.asked("late", 0.0, now + 20.5)
    assert shadow.waiting == 1


def test_one_that_the_challenger_could_not_score_is_given_up():
    shadow = Shadow(RIVALS)
    shadow.asked("a", 1.0, 0.0)
    shadow.missed("a")
    shadow.ended(outcome("a"))
    assert (shadow.pairs, shadow.forgotten) == (0, 1)


def test_the_window_is_bounded_and_comparisons_fall_due_in_steps():
    shadow = fed(drawn(70, 1.0, 1.0), ShadowConfig(window=50, least=20, every=30))
    assert shadow.due
    assert len(shadow.window()) == 50
    assert not shadow.due
    assert shadow.pairs == 70


def test_both_taus_are_kendall_s():
    pairs = drawn(300, 1.0, 0.4)
    found = fed(pairs).compare()
    assert found is not None
    tokens = [p.tokens for p in pairs]
    for mine, scores in (
        (found.overall.champion_tau, [p.champion for p in pairs]),
        (found.overall.challenger_tau, [p.challenger for p in pairs]),
    ):
        assert mine == pytest.approx(kendalltau(scores, tokens).statistic, abs=1e-9)
    gap = found.overall
    assert gap.difference == pytest.approx(gap.challenger_tau - gap.champion_tau)
    assert gap.low < gap.difference < gap.high


@pytest.mark.parametrize(
    ("champion", "challenger", "verdict"),
    [(1.5, 0.5, Verdict.BETTER), (0.5, 1.5, Verdict.WORSE), (1.0, 1.0, Verdict.UNCLEAR)],
)
def test_who_is_better_is_said_when_it_is_sure(champion, challenger, verdict):
    found = compared(RIVALS, drawn(400, champion, challenger), ShadowConfig())
    assert found is not None
    assert found.verdict is verdict
    entry = found.entry(5.0, Verdict.UNCLEAR)
    assert (entry.kind, entry.version, entry.after) == ("shadow", "2", str(verdict))
    assert json.loads(json.dumps(found.as_dict()))["verdict"] == str(verdict)


def test_equals_are_rarely_called_different():
    config = ShadowConfig(resamples=200)
    wrong = sum(
        compared(RIVALS, drawn(150, 1.0, 1.0, seed), config).verdict is not Verdict.UNCLEAR  # type: ignore[union-attr]
        for seed in range(25)
    )
    assert wrong <= 2  # 0.25 expected at p .01


def test_lower_bounds_count_as_such():
    """Cut off at 10 while it would have been the longest: scores that knew are not called wrong."""
    pairs = [Pair(float(t), float(-t), t, False) for t in range(1, 60)]
    pairs += [Pair(100.0 + i, -100.0 - i, 10, True) for i in range(20)]
    found = compared(RIVALS, pairs, ShadowConfig(least=10))
    assert found is not None
    assert found.overall.champion_tau == pytest.approx(1.0)
    assert found.verdict is Verdict.WORSE


def test_slices_are_compared_apart():
    pairs = [*drawn(200, 1.5, 0.5, tenant="acme"), *drawn(120, 0.5, 1.5, 1, tenant="zoo")]
    pairs += drawn(30, 1.0, 1.0, 2, tenant="few")
    found = compared(RIVALS, pairs, ShadowConfig())
    assert found is not None
    assert [(gap.label, gap.pairs) for gap in found.slices] == [
        ("tenant acme", 200), ("tenant zoo", 120),
    ]  # fmt: skip
    assert found.slices[0].low > 0.0 > found.slices[1].high  # type: ignore[operator]


def test_too_few_say_nothing_and_no_order_has_no_tau():
    assert fed(drawn(99, 1.0, 1.0)).compare() is None
    same = [Pair(float(i), float(-i), 7, False) for i in range(120)]
    found = compared(RIVALS, same, ShadowConfig())
    assert found is not None
    assert (found.overall.difference, found.verdict) == (None, Verdict.UNCLEAR)
    assert "no order" in found.words


@pytest.mark.parametrize(
    "change", [{"window": 0}, {"least": 1}, {"least": 2000}, {"age_s": 0.0}, {"confidence": 1.0}]
)
def test_odd_settings_are_refused_by_name(change):
    with pytest.raises(ValueError, match=f"shadow.{next(iter(change))}"):
        ShadowConfig(**change)
