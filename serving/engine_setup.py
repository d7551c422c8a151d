"""From what an operator chose to a backend that runs: model, KV cache, cost model, lanes, loop."""

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
from engine.core.config import (
    AdmissionConfig,
    AdmissionMode,
    PreemptionConfig,
    PreemptionMode,
    SchedulerConfig,
)
from engine.core.costs import CostModel
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane, LaneConfig
from engine.core.policies import make
from engine.executor import TorchExecutor
from engine.profile import profile
from engine.runner import Runner
from ranker.types import Outcome
from serving import cores
from serving.lanes_file import LaneSpec

log = logging.getLogger(__name__)

#: Share of a GPU's free memory that the KV cache takes when the operator names no size.
_GPU_SHARE = 0.6
_CPU_GIB = 0.5


#: Where requests wait in an engine without a file of lanes.
DEFAULT_LANE = LaneSpec(LaneConfig("default"))


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """What to serve and how.

    ``kv_gib``: memory of the KV cache; 0 takes 0.5 GiB on a CPU, 60 % of what is free on a GPU.
    ``swap_gib``: memory of the host that preempted requests may be moved to; 0: they recompute.
    ``cost``: what steps cost, measured at start when ``None`` (policies order by it, victims are
    chosen by it, a comparison of learned policies replays with it). ``threads`` 0: all cores this
    process may use but one.
    """

    model: str
    name: str = ""
    lanes: tuple[LaneSpec, ...] = (DEFAULT_LANE,)
    fairness: FairnessConfig | None = None
    admission: AdmissionMode = AdmissionMode.STATIC
    preemption: PreemptionMode = PreemptionMode.AUTO
    prefix_cache: bool = True
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 512
    max_waiting: int = 10_000
    block_size: int = 32
    kv_gib: float = 0.0
    swap_gib: float = 0.0
    cost: CostModel | None = None

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("model must not be empty")
        if not self.lanes:
            raise ValueError("lanes must name at least one lane")
        if self.threads < 0:
            raise ValueError(f"threads must be >= 0, got {self.threads}")
        for name in ("kv_gib", "swap_gib"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")
        if self.preemption is PreemptionMode.SWAP and not self.swap_gib:
            raise ValueError("preemption swap needs swap_gib above 0: the memory to swap to")
        if self.swap_gib and self.cost is not None and not self.cost.swap:
            raise ValueError("cost must say what a swap costs when swap_gib is above 0")
        # Refuse what cannot serve before a model is loaded for it.
        self.scheduler(1, 1)
        self.build_lanes(CostModel(1.0, 0.0, 0.0))

    @property
    def needs_cost(self) -> bool:
        """Whether anything is decided by what steps cost; order of arrival alone is not."""
        return bool(self.swap_gib) or any(lane.policy != "fcfs" for lane in self.lanes)

    def build_lanes(self, cost: CostModel | None) -> tuple[Lane, ...]:
        """The lanes with policies of their own. Raises ``ValueError`` naming the lane."""
        built = []
        for spec in self.lanes:
            try:
                policy = make(
                    spec.policy,
                    cost=cost,
                    batch=self.max_num_seqs,
                    setting=spec.setting,
                    serving=True,
                )
            except ValueError as error:
                if len(self.lanes) == 1:
                    raise
                raise ValueError(f"lane {spec.config.name!r}: {error}") from None
            built.append(Lane(spec.config, policy))
        return tuple(built)

    def scheduler(self, num_blocks: int, host_blocks: int = 0) -> SchedulerConfig:
        return SchedulerConfig(
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            block_size=self.block_size,
            num_blocks=num_blocks,
            max_waiting=self.max_waiting,
            host_blocks=host_blocks,
            prefix_cache=self.prefix_cache,
            admission=AdmissionConfig(self.admission),
            preemption=PreemptionConfig(self.preemption),
            cost=self.cost,
        )


def load(setup: EngineSetup, cache: Path) -> models.Model:
    """Load the model, converting the bundled one at first use. Raises ``ValueError``."""
    ThreadsConfig(setup.threads or max(1, cores.usable() - 1)).apply()
    name, path = models.prepare(setup.model, cache)
    return models.load(path, name=setup.name or name, device=setup.device, dtype=setup.dtype)


def starter(
    setup: EngineSetup, model: models.Model, clock: Callable[[], float] = time.monotonic
) -> Callable[[Callable[[Outcome], None]], TorchBackend]:
    """What ``engine_server.run`` starts. ``setup.cost`` must be known when the setup needs it.

    Raises ``ValueError`` when the KV cache would not hold a single block.
    """
    config = setup.scheduler(_blocks(setup, model), _host_blocks(setup, model))
    lanes = setup.build_lanes(setup.cost)
    log.info(
        "%s: %s; KV cache for %d tokens, %d more on the host",
        model.name,
        ", ".join(f"lane {lane.name} on {lane.policy.name}" for lane in lanes),
        config.num_blocks * config.block_size,
        config.host_blocks * config.block_size,
    )
    return lambda on_outcome: TorchBackend(
        model, config, lanes, fairness=setup.fairness, on_outcome=on_outcome, clock=clock
    )


def with_cost(setup: EngineSetup, model: models.Model) -> EngineSetup:
    """``setup`` with a cost model, measured on this machine unless nothing is decided by it."""
    if setup.cost is not None or not setup.needs_cost:
        return setup
    return replace(setup, cost=measure(setup, model))


def measure(
    setup: EngineSetup, model: models.Model, clock: Callable[[], float] = time.monotonic
) -> CostModel:
    """Seconds of a step on this machine, from a few seconds of real steps."""
    prompts = (16, 64)
    per_request = math.ceil((max(prompts) + 8) / setup.block_size) + 1
    host_blocks = min(_host_blocks(setup, model), per_request * setup.max_num_seqs)
    config = setup.scheduler(per_request * setup.max_num_seqs, host_blocks)
    shape = model.kv_shape(config.num_blocks, config.block_size)
    runner = Runner(model, shape, host_blocks)
    began = time.monotonic()
    fit = profile(TorchExecutor(runner), config, clock, prompts=prompts, decodes=4)
    cost = fit.cost
    log.info(
        "measured in %.1f s: a step takes %.1f ms + %.2f ms a decode + %.2f ms a prefilled token "
        "(R² %.2f), a swapped token %.4f ms",
        time.monotonic() - began, cost.base * 1e3, cost.decode * 1e3, cost.prefill * 1e3,
        fit.r_squared, cost.swap * 1e3,
    )  # fmt: skip
    return cost


def check_one_thread(model: models.Model) -> None:
    """Raises ``ValueError`` unless one thread of this process does all the work of a step."""
    if model.device.type != "cpu" or torch.get_num_threads() > 1:
        raise ValueError("processor time needs a CPU and one thread: --device cpu --threads 1")


def _blocks(setup: EngineSetup, model: models.Model) -> int:
    if setup.kv_gib:
        size = setup.kv_gib * 2**30
    elif model.device.type == "cuda":
        size = _GPU_SHARE * torch.cuda.mem_get_info(model.device)[0]
    else:
        size = _CPU_GIB * 2**30
    block = _block_bytes(setup, model)
    blocks = int(size // block)
    if blocks < 1:
        raise ValueError(f"kv_gib: {setup.kv_gib} holds no block of {block / 2**30:.4f} GiB")
    # More than every slot at full context can never be used.
    most = setup.max_num_seqs * math.ceil(model.context_length / setup.block_size)
    return min(blocks, most + 1)


def _host_blocks(setup: EngineSetup, model: models.Model) -> int:
    return int(setup.swap_gib * 2**30 // _block_bytes(setup, model))


def _block_bytes(setup: EngineSetup, model: models.Model) -> int:
    return model.kv_shape(1, setup.block_size).nbytes(model.dtype)
