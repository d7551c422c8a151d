"""Policies by name. A policy is a key; see :mod:`engine.core.policies.base`."""

from __future__ import annotations

from engine.core.costs import CostModel
from engine.core.policies.base import Key, Policy
from engine.core.policies.boost import Boost, BoostConfig, Setting
from engine.core.policies.fcfs import Fcfs
from engine.core.policies.ranked import Ranked
from engine.core.policies.sjf import Sjf

__all__ = [
    "NAMES",
    "Boost",
    "BoostConfig",
    "Fcfs",
    "Key",
    "Policy",
    "Ranked",
    "Setting",
    "Sjf",
    "make",
]

#: Every policy that :func:`make` knows.
NAMES: tuple[str, ...] = ("fcfs", "sjf", "ranked", "boost")


def make(
    name: str,
    *,
    cost: CostModel | None = None,
    batch: int = 1,
    setting: Setting | str | BoostConfig = Setting.FAST,
    serving: bool = False,
) -> Policy:
    """Build a policy.

    ``cost`` and ``batch`` (requests per step when busy) turn tokens into seconds of work; boost
    needs them. ``setting`` is boost's, by name or in full. ``serving`` refuses policies that need
    true lengths.

    Raises ``ValueError`` on an unknown name or setting, boost without a cost model, or a policy
    that cannot serve.
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
    if name == "boost":
        if cost is None:
            raise ValueError("policy boost needs cost: fit a CostModel to measured steps first")
        config = setting if isinstance(setting, BoostConfig) else BoostConfig.of(setting)
        return Boost(config, cost, batch)
    raise ValueError(f"policy must be one of {', '.join(NAMES)}, got {name!r}")
