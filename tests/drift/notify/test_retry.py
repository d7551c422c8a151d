from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from drift.notify.retry import RetryConfig, passes, retry_after_s


@settings(deadline=None)
@given(st.integers(1, 2000), st.floats(0, 1e6), st.integers(0, 99))
def test_no_wait_passes_its_bound(failures, asked, seed):
    config = RetryConfig(base_s=0.5, cap_s=60.0)
    waited = config.wait_s(failures, asked, random.Random(seed))
    assert min(asked, 300.0) <= waited <= min(asked, 300.0) + 60.0


def test_jitter_is_full():
    config, rng = RetryConfig(base_s=1.0, cap_s=60.0), random.Random(1)
    waits = [config.wait_s(4, 0.0, rng) for _ in range(500)]
    assert stats.kstest(waits, stats.uniform(0, 8).cdf).pvalue > 0.01


def test_which_failures_pass():
    assert all(map(passes, (0, 408, 429, 500, 502, 503, 504)))
    assert not any(map(passes, (301, 400, 401, 403, 404, 410, 413)))


def test_retry_after_is_seconds_or_a_date():
    assert retry_after_s(" 120 ", 0.0) == 120.0
    date = format_datetime(datetime.fromtimestamp(1_700_000_030, UTC), usegmt=True)
    assert retry_after_s(date, 1_700_000_000.0) == 30.0
    assert retry_after_s(date, 1_800_000_000.0) == 0.0
    assert retry_after_s("soon", 0.0) == retry_after_s("", 0.0) == 0.0


@pytest.mark.parametrize("bad", [{"attempts": 0}, {"base_s": 9.0, "cap_s": 1.0}, {"base_s": -1.0}])
def test_mistakes_are_refused(bad):
    with pytest.raises(ValueError, match="retry"):
        RetryConfig(**bad)
