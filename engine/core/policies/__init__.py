"""Policies by name. A policy is a key; see :mod:`engine.core.policies.base`."""

from __future__ import annotations

from engine.core.policies.base import Key, Policy, Starvation
from engine.core.policies.boost import Boost, BoostConfig, Setting
from engine.core.policies.catalogue import DESCRIPTIONS, NAMES, make
from engine.core.policies.fcfs import Fcfs
from engine.core.policies.gittins import Gittins
from engine.core.policies.granularity import Granularity
from engine.core.policies.ltr import Ltr, LtrConfig
from engine.core.policies.mlfq import Mlfq, MlfqConfig
from engine.core.policies.options import names
from engine.core.policies.priority import Priority, PriorityConfig
from engine.core.policies.prompt_sjf import PromptSjf
from engine.core.policies.ranked import Ranked
from engine.core.policies.size import Size
from engine.core.policies.sjf import Sjf
from engine.core.policies.srpt import Srpt
from engine.core.policies.srpt_predicted import SrptPredicted, SrptPredictedConfig
from engine.core.policies.tie import Tie, TieConfig

__all__ = [
    "DESCRIPTIONS",
    "NAMES",
    "Boost",
    "BoostConfig",
    "Fcfs",
    "Gittins",
    "Granularity",
    "Key",
    "Ltr",
    "LtrConfig",
    "Mlfq",
    "MlfqConfig",
    "Policy",
    "Priority",
    "PriorityConfig",
    "PromptSjf",
    "Ranked",
    "Setting",
    "Size",
    "Sjf",
    "Srpt",
    "SrptPredicted",
    "SrptPredictedConfig",
    "Starvation",
    "Tie",
    "TieConfig",
    "make",
    "names",
]
