from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.label.backoff import Backoff, retry_after
from training.label.sampling import Sampling

NOW = datetime(2026, 11, 30, 15, 0, 0, tzinfo=UTC)


@given(st.integers(0, 2000), st.integers())
def test_waits_grow_and_end_at_the_most(tried, seed):
    backoff = Backoff(first_s=0.5, most_s=20.0)
    assert 0.0 <= backoff.wait(tried, random.Random(seed)) <= min(20.0, 0.5 * 2.0 ** min(tried, 9))


def test_what_the_server_asks_for_is_kept_to_within_bounds():
    backoff, rng = Backoff(most_s=30.0), random.Random(0)
    assert 5.0 <= backoff.wait(0, rng, 5.0) <= 5.5
    assert 30.0 <= backoff.wait(0, rng, 9999.0) <= 33.0
    assert backoff.wait(3, rng, 0.0) == 0.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("Mon, 30 Nov 2026 15:00:09 GMT", 9.0),
        ("Mon, 30 Nov 2026 14:00:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value, seconds):
    assert retry_after(value, NOW) == seconds


@pytest.mark.parametrize("wrong", [{"first_s": 0.0}, {"first_s": 9.0, "most_s": 1.0}, {"tries": 0}])
def test_a_backoff_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Backoff(**wrong)


def test_every_draw_of_every_prompt_has_a_seed_of_its_own():
    sampling = Sampling("m", seed=3)
    seeds = {sampling.seed_of(key, draw) for key in ("a", "b", "c") for draw in range(50)}
    assert len(seeds) == 150
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert sampling.seed_of("a", 1) == Sampling("m", seed=3, temperature=0.1).seed_of("a", 1)
    assert sampling.seed_of("a", 1) != Sampling("m", seed=4).seed_of("a", 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""}, {"temperature": -0.1}, {"temperature": float("nan")}, {"top_p": 0.0},
        {"top_p": 1.1}, {"repetition_penalty": 0.0}, {"max_tokens": 0},
    ],
)  # fmt: skip
def test_sampling_that_makes_no_sense_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sampling(**{"model": "m", **wrong})
