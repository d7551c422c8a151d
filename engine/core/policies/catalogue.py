"""Every policy by name, and how it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.core.costs import CostModel
from engine.core.policies.base import Policy
from engine.core.policies.boost import Boost, BoostConfig, Setting
from engine.core.policies.fcfs import Fcfs
from engine.core.policies.gittins import Gittins
from engine.core.policies.granularity import Granularity
from engine.core.policies.ltr import Ltr, LtrConfig
from engine.core.policies.mlfq import Mlfq, MlfqConfig
from engine.core.policies.options import configured, keys, split
from engine.core.policies.priority import Priority, PriorityConfig
from engine.core.policies.prompt_sjf import PromptSjf
from engine.core.policies.ranked import Ranked
from engine.core.policies.size import Size
from engine.core.policies.sjf import Sjf
from engine.core.policies.srpt import Srpt
from engine.core.policies.srpt_predicted import SrptPredicted, SrptPredictedConfig
from engine.core.policies.tie import Tie, TieConfig


@dataclass(frozen=True, slots=True)
class Entry:
    """One policy.

    build: from its configuration and the size of requests. config: its default configuration.
    needs_cost: whether it is nothing without a cost model. instead: what to serve with when it
    needs true lengths.
    """

    description: str
    build: Callable[[Any, Size], Policy]
    config: Any = None
    needs_cost: bool = False
    instead: str = ""


def _boost(config: BoostConfig, size: Size) -> Policy:
    assert size.cost is not None
    return Boost(config, size.cost, size.batch)


def _mlfq(config: MlfqConfig, size: Size) -> Policy:
    assert size.cost is not None
    return Mlfq(config, size.cost, size.batch)


ENTRIES: Mapping[str, Entry] = {
    "fcfs": Entry("first come, first served", lambda config, size: Fcfs()),
    "sjf": Entry(
        "shortest job first by true lengths; simulation only",
        lambda config, size: Sjf(size.cost, size.batch),
        instead="boost, ranked or fcfs",
    ),
    "ranked": Entry("lowest score of the ranker first", lambda config, size: Ranked()),
    "boost": Entry(
        "express tier, patience; default",
        _boost,
        BoostConfig.of(Setting.FAST),
        needs_cost=True,
    ),
    "srpt": Entry(
        "shortest remaining time by true lengths, preempting; simulation only",
        Srpt,
        Granularity(),
        instead="srpt_predicted",
    ),
    "srpt_predicted": Entry(
        "shortest remaining time by the forecast given what has come, as in TRAIL; preempts",
        SrptPredicted,
        SrptPredictedConfig(),
    ),
    "gittins": Entry("Gittins index of the forecast's quantiles; preempts", Gittins, Granularity()),
    "tie": Entry("expected length inflated by the tail, with ageing", Tie, TieConfig()),
    "ltr": Entry(
        "lowest score first in every step, with the starvation rule of vllm-ltr; preempts",
        lambda config, size: Ltr(config),
        LtrConfig(),
    ),
    "mlfq": Entry(
        "skip-join multi-level feedback queue as in FastServe, without forecasts; preempts",
        _mlfq,
        MlfqConfig(),
        needs_cost=True,
    ),
    "prompt_sjf": Entry("shortest prompt first", lambda config, size: PromptSjf()),
    "priority": Entry(
        "strict classes, lower priority number first",
        lambda config, size: Priority(config),
        PriorityConfig(),
    ),
}

#: Every policy that :func:`make` knows.
NAMES: tuple[str, ...] = tuple(ENTRIES)


def _described(entry: Entry) -> str:
    options = keys(entry.config)
    return f"{entry.description} (options: {', '.join(options)})" if options else entry.description


#: One line on each of them, for ``--help``.
DESCRIPTIONS: Mapping[str, str] = {name: _described(entry) for name, entry in ENTRIES.items()}


def make(
    name: str,
    *,
    cost: CostModel | None = None,
    batch: int = 1,
    setting: Setting | str | BoostConfig = Setting.FAST,
    serving: bool = False,
) -> Policy:
    """Build a policy, by its name or with options after a colon: ``ltr:starvation=100,period=5``.

    ``cost`` and ``batch`` (requests per step when busy) turn tokens into seconds of work; boost
    and mlfq need them. ``setting`` is boost's, by name or in full, unless the policy itself is
    called boost-safe or boost-fast; its options change that one. ``serving`` refuses policies that
    need true lengths.

    Raises ``ValueError`` on an unknown name, option or setting, a missing cost model, or a policy
    that cannot serve.
    """
    policy, options = split(name)
    if policy.startswith("boost-"):
        policy, _, setting = policy.partition("-")
    entry = ENTRIES.get(policy)
    if entry is None:
        raise ValueError(f"policy must be one of {', '.join(NAMES)}, got {policy!r}")
    if serving and entry.instead:
        raise ValueError(
            f"policy {policy} needs true lengths, which nobody knows when serving; "
            f"use {entry.instead}"
        )
    if entry.needs_cost and cost is None:
        raise ValueError(f"policy {policy} needs cost: fit a CostModel to measured steps first")
    config = entry.config
    if policy == "boost":
        config = setting if isinstance(setting, BoostConfig) else BoostConfig.of(setting)
    return entry.build(configured(config, options, policy), Size(cost, batch))
