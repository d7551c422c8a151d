import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.backlog import Backlog


def lindley(entries, window, percentile):
    """Again with NumPy, from the definition."""
    entries = sorted(entries)
    newest = entries[-1][0]
    kept = [(arrival, work) for arrival, work in entries if arrival >= newest - window]
    backlog, found, last = 0.0, [], kept[0][0]
    for arrival, work in kept:
        backlog = max(0.0, backlog - (arrival - last)) + work
        found.append(backlog)
        last = arrival
    return float(np.quantile(found, percentile, method="inverted_cdf"))


@given(
    st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 9.0)), min_size=1, max_size=31),
    st.floats(1.0, 50.0),
)
def test_is_the_percentile_of_the_lindley_recursion(entries, window):
    backlog = Backlog(window, 0.9)
    for entry in entries:
        assert backlog.add(*entry)
    # The window forgets as it goes; a late finisher from before it is forgotten at once.
    assert backlog.value == pytest.approx(lindley(entries, window, 0.9))


def test_order_of_ending_does_not_matter():
    entries = [(float(i), 1.5) for i in range(20)]
    values = []
    for order in (entries, entries[::-1]):
        backlog = Backlog(1000.0)
        for entry in order:
            backlog.add(*entry)
        values.append(backlog.value)
    assert values[0] == values[1] == pytest.approx(19 * 0.5 + 1.5)


def test_names_the_field():
    with pytest.raises(ValueError, match="window"):
        Backlog(0.0)
    with pytest.raises(ValueError, match="percentile"):
        Backlog(1.0, 1.0)
