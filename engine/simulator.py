"""The scheduler that serves, on a virtual clock: what a policy does to latencies, in a moment."""

from __future__ import annotations

from collections.abc import Sequence

from engine.acceptance import Acceptance
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane
from engine.core.policies.base import Policy
from engine.core.request import Request
from engine.core.speculation import SpeculationConfig
from engine.replica import Replica
from engine.result import Result
from engine.tenancy import Tenancy

__all__ = ["Result", "simulate"]


def simulate(
    requests: Sequence[Request],
    config: SchedulerConfig,
    policy_or_lanes: Policy | Sequence[Lane],
    cost: CostModel,
    *,
    skip: bool = True,
    fairness: FairnessConfig | None = None,
    speculation: SpeculationConfig | None = None,
    acceptance: float = 0.0,
    seed: int = 0,
) -> Result:
    """Run ``requests`` to their ``true_tokens`` and say when each began and ended.

    The requests are read, not changed. ``skip`` takes runs of equal decode steps at once; the
    outcome is the same without, up to rounding, and slower. ``acceptance``: probability that a
    drafted token is kept, drawn from ``seed``; it matters with ``speculation`` alone. A policy that
    learns is changed: give each run one of its own.

    Raises ``ValueError`` when there are no requests, a true length is missing or below 1, or a
    request can never fit; prompt and answer together must fit in the KV pool.
    """
    if not requests:
        raise ValueError("requests must not be empty")
    replica = Replica(
        config,
        policy_or_lanes,
        cost,
        skip=skip,
        fairness=fairness,
        speculation=speculation,
        acceptance=Acceptance(acceptance, seed),
        tenancy=tenancy_of(fairness),
    )
    for request in sorted(requests, key=lambda request: request.arrival):
        replica.submit(request)
    replica.advance()
    return replica.result()


def tenancy_of(fairness: FairnessConfig | None) -> Tenancy:
    """What measures fairness, by the weights that the scheduler goes by."""
    if fairness is None:
        return Tenancy()
    return Tenancy(
        input_weight=fairness.input_weight,
        output_weight=fairness.output_weight,
        weights=fairness.weights,
    )
