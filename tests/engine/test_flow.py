from hypothesis import given
from hypothesis import strategies as st

from engine.flow import steps_within


@given(st.floats(0.0, 50.0), st.floats(1e-3, 2.0), st.floats(0.0, 1.0))
def test_steps_that_begin_within_by_counting(room, first, share):
    growth, begins, count = share * first, 0.0, 0
    while begins < room * (1 - 1e-12) and count < 5000:
        begins += first + growth * count
        count += 1
    if count < 5000:
        assert abs(steps_within(room, first, growth) - count) <= (abs(begins - room) < 1e-6 * room)
