"""Shortest job first with true lengths: the oracle, for simulation only."""

from __future__ import annotations

from engine.core.costs import CostModel
from engine.core.policies.base import Key, Static
from engine.core.policies.size import Size
from engine.core.request import Request


class Sjf(Static):
    """Order of true work, which minimises mean waiting on one server without preemption (Smith
    1956).

    With a cost model a request's size is its share of the engine's work, prompt included;
    without one its output tokens.
    """

    name = "sjf"

    def __init__(self, cost: CostModel | None = None, batch: int = 1) -> None:
        self._size = Size(cost, batch)

    def key(self, request: Request) -> Key:
        """Raises ``ValueError`` when the true length is not known."""
        return (self._size.whole(request, true_tokens(request, self.name)), request.arrival)


def true_tokens(request: Request, policy: str) -> int:
    """The true length. Raises ``ValueError`` when it is not known."""
    if request.true_tokens is None:
        raise ValueError(
            f"request {request.id!r} has no true_tokens: policy {policy} orders by true lengths, "
            "which only simulations know; serve with boost or ranked"
        )
    return request.true_tokens
