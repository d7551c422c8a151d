"""Policies by name. A policy is a key; see :mod:`engine.core.policies.base`."""

from __future__ import annotations

from engine.core.costs import CostModel
from engine.core.policies.base import Key, Policy
from engine.core.policies.fcfs import Fcfs
from engine.core.policies.ranked import Ranked
from engine.core.policies.sjf import Sjf

__all__ = ["NAMES", "Fcfs", "Key", "Policy", "Ranked", "Sjf", "make"]

#: Every policy that :func:`make` knows.
NAMES: tuple[str, ...] = ("fcfs", "sjf", "ranked")


def make(
    name: str, *, cost: CostModel | None = None, batch: int = 1, serving: bool = False
) -> Policy:
    """Build a policy.

    ``cost`` and ``batch`` (requests per step when busy) turn tokens into seconds of work.
    ``serving`` refuses policies that need true lengths.

    Raises ``ValueError`` on an unknown name or one that cannot serve.
    """
    if name == "fcfs":
        return Fcfs()
    if name == "ranked":
        return Ranked()
    if name == "sjf":
        if serving:
            raise ValueError(
                "policy sjf needs true lengths, which nobody knows when serving; "
                "use boost, ranked or fcfs"
            )
        return Sjf(cost, batch)
    raise ValueError(f"policy must be one of {', '.join(NAMES)}, got {name!r}")
