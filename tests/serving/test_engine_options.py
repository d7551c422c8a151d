"""Options of ``shortfirst engine`` that are more than one value."""

from __future__ import annotations

import pytest

from engine.core.budgets import Budget
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from serving.engine_options import cost_model, cost_text, fairness


def test_costs_may_leave_out_what_is_zero_and_read_back() -> None:
    assert cost_model("") is None
    assert cost_model("0.03,0.002,0.001") == CostModel(0.03, 0.002, 0.001)
    full = CostModel(0.03, 0.002, 0.001, 2e-7, 1e-5)
    assert cost_model(cost_text(full)) == full


@pytest.mark.parametrize("text", ["1,2", "1,2,3,4,5,6", "a,b,c", "1;2;3", "0,0,0", "1,2,-3"])
def test_costs_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"--cost|must"):
        cost_model(text)


def test_budgets_and_counters_are_independent() -> None:
    assert fairness(False, []) is None
    assert fairness(True, []) == FairnessConfig(counters=True)
    assert fairness(False, ["a=b=10:20", "*=5:5.5"]) == FairnessConfig(
        budgets={"a=b": Budget(10, 20)}, default_budget=Budget(5, 5.5), counters=False
    )


@pytest.mark.parametrize(
    ("budgets", "said"),
    [
        (["acme"], "NAME=RATE:BURST"),
        (["=1:2"], "NAME=RATE:BURST"),
        (["acme=1"], "NAME=RATE:BURST"),
        (["acme=1:2:3"], "NAME=RATE:BURST"),
        (["acme=fast:2"], "NAME=RATE:BURST"),
        (["acme=0:2"], "acme: budget.rate"),
        (["acme=1:nan"], "acme: budget.burst"),
        (["acme=1:2", "acme=3:4"], "'acme' twice"),
    ],
)
def test_budgets_that_are_none_are_refused(budgets: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=f"--tenant-budget.*{said}"):
        fairness(False, budgets)
