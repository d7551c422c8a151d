from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift.config import MonitorConfig
from drift.heavy import SpaceSaving
from drift.key import OTHER
from drift.monitor import Monitor
from drift.slices import REST, SliceConfig, Slices


@given(st.lists(st.integers(0, 40), max_size=400), st.integers(1, 20))
@settings(max_examples=200, deadline=None)
def test_counts_are_bounds_and_heavy_items_are_never_missed(items, counters):
    tracker: SpaceSaving[int] = SpaceSaving(counters)
    for item in items:
        tracker.add(item)
    truth = Counter(items)
    assert len(tracker) <= counters
    for item, count in truth.items():
        assert tracker.sure(item) <= count
        if count > len(items) / counters:  # the guarantee of Metwally et al., theorem 3
            assert item in tracker
    if len(truth) <= counters:
        assert all(tracker.sure(item) == count for item, count in truth.items())


def test_a_hundred_thousand_tenants_get_no_series_but_the_big_one_does():
    slices = Slices(SliceConfig())
    found = Counter()
    for i in range(100_000):
        found[slices.of("", f"tenant {i}")] += 1
        if i % 9 == 0:
            found[slices.of("", "big")] += 1
    assert set(found) == {None, REST, ("", "big")}
    assert found["", "big"] > 0.95 * 100_000 / 9
    assert len(slices._traffic) == SliceConfig().counters
    assert slices.share(("", "big")) == pytest.approx(0.1, abs=0.01)
    assert slices.share(REST) == pytest.approx(0.9, abs=0.01)


def test_one_part_is_no_slice_and_the_second_makes_two():
    slices = Slices(SliceConfig(least=3))
    assert {slices.of("chat", "a") for _ in range(10)} == {None}
    assert slices.of("batch", "a") == REST
    assert slices.of("chat", "a") == ("chat", "a")
    assert [slices.of("batch", "a") for _ in range(2)] == [REST, ("batch", "a")]


def test_who_becomes_heavy_takes_the_place_of_who_no_longer_is():
    slices = Slices(SliceConfig(most=2, total=4, least=5, counters=8, half_life=50))
    for _ in range(30):
        for tenant in ("a", "b"):
            slices.of("", tenant)
    assert slices.of("", "a") == ("", "a")
    for _ in range(100):
        part = slices.of("", "c")
    assert part == ("", "c")
    assert REST in {slices.of("", "a"), slices.of("", "b")}


def test_no_tenant_is_taken_for_everybody_else():
    assert REST == (None, OTHER)
    with pytest.raises(ValueError, match=r"slices\.most"):
        SliceConfig(most=500)
    with pytest.raises(ValueError, match=r"slices\.least"):
        SliceConfig(least=0)


def test_a_monitor_of_a_hundred_thousand_tenants_stays_small(stream):
    monitor = Monitor(MonitorConfig(slices=SliceConfig(most=4, total=6, least=20)))
    tenant, rows = 0, stream(200, 0.4, 1)
    for outcome in rows:
        monitor.update(dataclasses.replace(outcome, tenant="big"))
    for k in range(30):  # each new served model brings its own tenants
        for i, outcome in enumerate(rows[:100]):
            tenant += 1
            name = f"tenant {tenant}" if i % 2 else f"big {k} {i % 8}"
            monitor.update(dataclasses.replace(outcome, tenant=name, served_model=f"m{k}"))
    assert len(monitor.snapshots()) == 31
    assert 0 < len(monitor._watch.slices) <= 6
