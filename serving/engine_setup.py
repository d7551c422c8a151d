"""From what an operator chose to a backend that runs: model, KV cache, cost model, policy, loop."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from engine import models
from engine.backend import ThreadsConfig, TorchBackend
from engine.core.costs import CostModel
from engine.core.policies import Setting, make
from engine.core.scheduler import SchedulerConfig
from engine.executor import TorchExecutor
from engine.profile import profile
from engine.runner import Runner
from ranker.types import Outcome
from serving import cores

log = logging.getLogger(__name__)

#: Share of a GPU's free memory that the KV cache takes when the operator names no size.
_GPU_SHARE = 0.6
_CPU_GIB = 0.5


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """What to serve and how.

    ``kv_gib``: memory of the KV cache; 0 takes 0.5 GiB on a CPU, 60 % of what is free on a GPU.
    ``cost``: seconds per step, per decoded and per prefilled token, measured at start when ``None``
    (``boost`` orders by it, a comparison of learned policies replays with it). ``threads`` 0: all
    cores this process may use but one.
    """

    model: str
    name: str = ""
    policy: str = "boost"
    setting: Setting = Setting.FAST
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 512
    max_waiting: int = 10_000
    block_size: int = 32
    kv_gib: float = 0.0
    cost: CostModel | None = None

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("model must not be empty")
        if self.threads < 0:
            raise ValueError(f"threads must be >= 0, got {self.threads}")
        if not (math.isfinite(self.kv_gib) and self.kv_gib >= 0):
            raise ValueError(f"kv_gib must be >= 0, got {self.kv_gib}")
        # Refuse what cannot serve before a model is loaded for it.
        make(self.policy, cost=CostModel(1.0, 0.0, 0.0), setting=self.setting, serving=True)
        self.scheduler(1)

    def scheduler(self, num_blocks: int) -> SchedulerConfig:
        return SchedulerConfig(
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            block_size=self.block_size,
            num_blocks=num_blocks,
            max_waiting=self.max_waiting,
        )


def load(setup: EngineSetup, cache: Path) -> models.Model:
    """Load the model, converting the bundled one at first use. Raises ``ValueError``."""
    ThreadsConfig(setup.threads or max(1, cores.usable() - 1)).apply()
    name, path = models.prepare(setup.model, cache)
    return models.load(path, name=setup.name or name, device=setup.device, dtype=setup.dtype)


def starter(
    setup: EngineSetup, model: models.Model
) -> Callable[[Callable[[Outcome], None]], TorchBackend]:
    """What ``engine_server.run`` starts. ``setup.cost`` must be known when the policy needs it.

    Raises ``ValueError`` when the KV cache would not hold a single block.
    """
    config = setup.scheduler(_blocks(setup, model))
    policy = make(
        setup.policy,
        cost=setup.cost,
        batch=setup.max_num_seqs,
        setting=setup.setting,
        serving=True,
    )
    tokens = config.num_blocks * config.block_size
    log.info("%s: policy %s, KV cache for %d tokens", model.name, policy.name, tokens)
    return lambda on_outcome: TorchBackend(model, config, policy, on_outcome=on_outcome)


def with_cost(setup: EngineSetup, model: models.Model) -> EngineSetup:
    """``setup`` with a cost model; measures this machine, but for fcfs, which has no use of it."""
    if setup.cost is not None or setup.policy == "fcfs":
        return setup
    return replace(setup, cost=measure(setup, model))


def measure(setup: EngineSetup, model: models.Model) -> CostModel:
    """Seconds of a step on this machine, from a few seconds of real steps."""
    prompts = (16, 64)
    per_request = math.ceil((max(prompts) + 8) / setup.block_size) + 1
    config = setup.scheduler(per_request * setup.max_num_seqs)
    runner = Runner(model, model.kv_shape(config.num_blocks, config.block_size))
    began = time.monotonic()
    fit = profile(TorchExecutor(runner), config, time.monotonic, prompts=prompts, decodes=4)
    cost = fit.cost
    log.info(
        "measured in %.1f s: a step takes %.1f ms + %.2f ms a decode + %.2f ms a prefilled token "
        "(R² %.2f)",
        time.monotonic() - began, cost.base * 1e3, cost.decode * 1e3, cost.prefill * 1e3,
        fit.r_squared,
    )  # fmt: skip
    return cost


def _blocks(setup: EngineSetup, model: models.Model) -> int:
    if setup.kv_gib:
        size = setup.kv_gib * 2**30
    elif model.device.type == "cuda":
        size = _GPU_SHARE * torch.cuda.mem_get_info(model.device)[0]
    else:
        size = _CPU_GIB * 2**30
    block = model.kv_shape(1, setup.block_size).nbytes(model.dtype)
    blocks = int(size // block)
    if blocks < 1:
        raise ValueError(f"kv_gib: {setup.kv_gib} holds no block of {block / 2**30:.4f} GiB")
    # More than every slot at full context can never be used.
    most = setup.max_num_seqs * math.ceil(model.context_length / setup.block_size)
    return min(blocks, most + 1)
