"""Counts by size, as Prometheus reads them."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as Theirs

from engine.histogram import Histogram
from serving.snapshot import Snapshot


def test_it_reads_as_prometheus_own_does() -> None:
    bounds, values = (1, 8, 16.5), (0.5, 1, 1.5, 8, 16, 17, 400)
    mine = Histogram(bounds)
    registries = CollectorRegistry(), CollectorRegistry()
    theirs = Theirs("sizes", "Sizes.", buckets=bounds, registry=registries[1])
    for value in values:
        mine.observe(value)
        theirs.observe(value)
    registries[0].register(Snapshot(lambda: [mine.reading("sizes")], {"sizes": "Sizes."}))
    got, wanted = (generate_latest(registry).decode() for registry in registries)
    assert got.splitlines() == [line for line in wanted.splitlines() if "_created" not in line]


@pytest.mark.parametrize("bounds", [(), (2, 1), (1, 1)])
def test_bounds_must_ascend(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="bounds must ascend"):
        Histogram(bounds)
