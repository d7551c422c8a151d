from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import pdist

from ranker.sketch import DIMENSIONS, axes, sketches
from ranker.types import MOST_SKETCH, Forecast

GOLDEN_START = [
    "6e5b5e457dd0afc4",
    "9ba4cdec3235cf97",
    "37cdac94e61de525",
    "52a130d2033ded13",
    "2797bcd7feeb38d2",
    "e842a2cc5989cd71",
    "14e70f14be25945e",
    "96eb9f2c2cda4d35",
]
GOLDEN_END = [
    "a007d506",
    "5e5c12c6",
    "601a57d4",
    "73dee6ea",
    "51dad8a4",
    "33f2d85f",
    "e7bb29e3",
    "3aa99b79",
]
GOLDEN_SKETCH = [8.944272, -4.91935, 8.497058, -6.708204, 17.44133, -13.863622, -8.049845, 9.838699]

TABLES = arrays(
    np.float64,
    st.tuples(st.integers(0, 5), st.integers(1, 300)),
    elements=st.floats(-1e6, 1e6, width=32),
)


def test_the_axes_are_the_same_for_ever():
    """Golden: sketches on disk are compared with those of later versions."""
    signs = np.packbits(axes(768) > 0, axis=1)
    assert [row[:8].tobytes().hex() for row in signs] == GOLDEN_START
    assert [row[-4:].tobytes().hex() for row in signs] == GOLDEN_END
    (sketch,) = sketches(np.arange(20.0)[None])
    assert sketch == pytest.approx(GOLDEN_SKETCH, abs=1e-5)


def test_axes_are_directions_of_random_signs():
    found = axes(768)
    assert found.shape == (DIMENSIONS, 768)
    assert np.allclose(np.abs(found), 1 / math.sqrt(768))
    crossed = found @ found.T - np.eye(DIMENSIONS)
    assert np.abs(crossed).max() < 4 / math.sqrt(768)
    assert np.array_equal(axes(300)[:, :40] > 0, axes(40) > 0)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1.0


def test_distances_are_kept_roughly():
    rng = np.random.default_rng(0)
    far = rng.normal(size=(40, 384)) * rng.lognormal(0.0, 1.0, (40, 1))
    ratios = pdist(sketches(far)) * math.sqrt(384 / DIMENSIONS) / pdist(far)
    assert np.mean(ratios**2) == pytest.approx(1.0, abs=0.15)
    # Chi-squared with as many degrees of freedom as there are axes: standard deviation 1/2.
    assert np.mean(np.abs(ratios**2 - 1.0) < 1.0) > 0.9


@given(TABLES)
def test_a_sketch_is_the_same_in_any_company_and_fits_32_bits(table):
    together = sketches(table)
    assert len(together) == len(table)
    for row, sketch in zip(table, together, strict=True):
        assert sketches(row[None]) == [sketch]
        assert struct.unpack("<8f", struct.pack("<8f", *sketch)) == sketch
        assert sketch == pytest.approx(axes(table.shape[1]) @ row, rel=1e-5, abs=1e-1)


@pytest.mark.parametrize(
    "bad", [np.full((1, 4), np.nan), np.array([[1.0, np.inf]]), np.full((1, 9), 1e39)]
)
def test_where_it_would_not_be_finite_there_is_none_and_others_have_theirs(bad):
    good = np.ones((1, bad.shape[1]))
    assert sketches(np.concatenate([bad, good])) == [(), *sketches(good)]


@pytest.mark.parametrize("bad", [np.zeros((1, 0)), np.zeros(4)])
def test_what_is_no_table_is_refused(bad):
    with pytest.raises(ValueError, match="embeddings must"):
        sketches(bad)


@pytest.mark.parametrize(
    ("bad", "word"),
    [((math.nan,), "finite"), ((math.inf,), "finite"), ((1e39,), "32 bits"), ((0.0,) * 65, "64")],
)
def test_a_forecast_refuses_what_is_no_sketch(bad, word):
    with pytest.raises(ValueError, match=f"forecast.sketch.*{word}"):
        Forecast(1.0, (1.0,), "r", "1", (0.5,), sketch=bad)


def test_a_forecast_takes_the_largest_sketch():
    largest = float(np.finfo(np.float32).max)
    sketch = (largest, -largest) * (MOST_SKETCH // 2)
    assert Forecast(1.0, (1.0,), "r", "1", (0.5,), sketch=sketch).sketch == sketch
