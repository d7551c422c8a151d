import pytest

from engine.core.costs import CostModel


def test_step_and_work_by_hand():
    cost = CostModel(base=0.02, decode=0.001, prefill=0.0005, context=0.00001)
    assert cost.step(0, 0) == 0.0
    assert cost.step(4, 100, 50) == pytest.approx(0.02 + 0.004 + 0.05 + 0.0005)
    expected = 0.0005 * 100 + 10 * (0.02 + 0.001 * 8) / 8 + 0.00001 * 10 * (100 + 5)
    assert cost.work(100, 10, 8) == pytest.approx(expected)


def test_works_of_a_full_batch_add_up_to_the_time_of_its_steps():
    cost = CostModel(base=0.02, decode=0.001, prefill=0.0)
    steps = 50 * cost.step(8, 0)
    assert 8 * cost.work(1, 50, 8) == pytest.approx(steps)


@pytest.mark.parametrize(
    ("numbers", "field"),
    [((-1.0, 1.0, 1.0), "base"), ((1.0, float("inf"), 1.0), "decode"), ((0.0, 0.0, 1.0), "cost")],
)
def test_names_the_field(numbers, field):
    with pytest.raises(ValueError, match=field):
        CostModel(*numbers)
