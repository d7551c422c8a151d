"""What an operator chose, and from a loaded model to a backend: KV cache, cost model, lanes."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from engine import cache_size, models
from engine.backend import TorchBackend
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
from engine.drafting.speculative import Speculative
from engine.executor import TorchExecutor
from engine.native.library import Kernels
from engine.profile import profile
from engine.runner import Runner
from engine.sources import ModelSource
from ranker.types import Outcome
from serving.engine_options import step_tokens
from serving.lanes_file import LaneSpec
from serving.speculation_setup import Method, SpeculationSetup

log = logging.getLogger(__name__)

#: Where requests wait in an engine without a file of lanes.
DEFAULT_LANE = LaneSpec(LaneConfig("default"))


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """What to serve and how.

    ``model``, ``revision``, ``trust_remote_code`` and ``allow_pickle`` as
    :class:`~engine.sources.ModelSource` has them. ``max_model_len``: tokens of prompt and answer
    that one request may have; 0: as many as the model takes. ``block_size``: tokens of a KV block;
    0: what the device reads best. ``kv_gib``: memory of the KV cache; 0 takes 0.5 GiB on a CPU,
    and on a GPU what weights and the largest step leave of ``gpu_memory_utilization``, the share
    of its memory that may be taken in all. ``cuda_graphs``: repeat decode steps as graphs on a GPU.
    ``swap_gib``: memory of the host that preempted requests may be moved to; 0: they recompute.
    ``cost``: what steps cost, measured at start when ``None`` (policies order by it, victims are
    chosen by it, a comparison of learned policies replays with it, drafts are taken while they
    pay). ``threads`` 0: all cores this process may use but one. ``kernels``: what computes on a
    CPU. ``speculation``: guesses of what comes next, verified beside it.
    """

    model: str
    name: str = ""
    revision: str = ""
    trust_remote_code: bool = False
    allow_pickle: bool = False
    max_model_len: int = 0
    lanes: tuple[LaneSpec, ...] = (DEFAULT_LANE,)
    fairness: FairnessConfig | None = None
    admission: AdmissionMode = AdmissionMode.STATIC
    preemption: PreemptionMode = PreemptionMode.AUTO
    prefix_cache: bool = True
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    kernels: Kernels = Kernels.AUTO
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 0
    max_waiting: int = 10_000
    block_size: int = 0
    kv_gib: float = 0.0
    gpu_memory_utilization: float = 0.9
    cuda_graphs: bool = True
    swap_gib: float = 0.0
    cost: CostModel | None = None
    speculation: SpeculationSetup = field(default_factory=SpeculationSetup)

    def __post_init__(self) -> None:
        self.source  # noqa: B018  # refuses what cannot be a model
        if not self.lanes:
            raise ValueError("lanes must name at least one lane")
        if self.max_model_len < 0:
            raise ValueError(f"max_model_len must be >= 0, got {self.max_model_len}")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ValueError(
                "gpu_memory_utilization must be a share above 0 and up to 1, got "
                f"{self.gpu_memory_utilization}"
            )
        for name in ("threads", "block_size"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")
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
    def source(self) -> ModelSource:
        return ModelSource(self.model, self.revision, self.trust_remote_code, self.allow_pickle)

    @property
    def needs_cost(self) -> bool:
        """Whether anything is decided by what steps cost; order of arrival alone is not."""
        speculates = self.speculation.method is not Method.OFF
        return bool(self.swap_gib) or speculates or any(x.policy != "fcfs" for x in self.lanes)

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
            max_num_batched_tokens=self.max_num_batched_tokens
            or step_tokens("cpu", self.max_num_seqs),
            block_size=self.block_size or 1,
            num_blocks=num_blocks,
            max_waiting=self.max_waiting,
            host_blocks=host_blocks,
            prefix_cache=self.prefix_cache,
            admission=AdmissionConfig(self.admission),
            preemption=PreemptionConfig(self.preemption),
            cost=self.cost,
        )


def starter(
    setup: EngineSetup,
    model: models.Model,
    clock: Callable[[], float] = time.monotonic,
    speculative: Speculative | None = None,
) -> Callable[[Callable[[Outcome], None]], TorchBackend]:
    """What ``engine_server.run`` starts. ``setup.cost`` must be known when the setup needs it, and
    ``speculative`` what :func:`serving.drafts.prepare` made of ``setup.speculation``.

    Raises ``ValueError`` when the KV cache would not hold a single block.
    """
    setup = fitted(setup, model)
    space = cache_size.Space(setup.kv_gib, setup.gpu_memory_utilization, setup.swap_gib)
    most = (setup.max_num_seqs, setup.max_num_batched_tokens)
    config = setup.scheduler(*cache_size.blocks(model, setup.block_size, space, *most))
    if setup.max_model_len > config.capacity:
        raise ValueError(
            f"max_model_len: the KV cache holds {config.capacity} tokens, fewer than "
            f"{setup.max_model_len}; raise kv_gib"
        )
    lanes = setup.build_lanes(setup.cost)
    log.info(
        "%s: %s; KV cache for %d tokens, %d more on the host",
        model.name,
        ", ".join(f"lane {lane.name} on {lane.policy.name}" for lane in lanes),
        config.num_blocks * config.block_size,
        config.host_blocks * config.block_size,
    )
    return lambda on_outcome: TorchBackend(
        model,
        config,
        lanes,
        fairness=setup.fairness,
        cuda_graphs=setup.cuda_graphs,
        speculative=speculative,
        on_outcome=on_outcome,
        clock=clock,
    )


def with_cost(setup: EngineSetup, model: models.Model) -> EngineSetup:
    """``setup`` with a cost model, measured on this machine unless nothing is decided by it."""
    if setup.cost is not None or not setup.needs_cost:
        return setup
    return replace(setup, cost=measure(setup, model))


def measure(
    setup: EngineSetup, model: models.Model, clock: Callable[[], float] = time.monotonic
) -> CostModel:
    """Seconds of a step on this machine, from about a second of real steps."""
    setup = fitted(setup, model)
    prompts = (8, 32)
    per_request = math.ceil((max(prompts) + 8) / setup.block_size) + 1
    needed = per_request * setup.max_num_seqs
    host_blocks = min(cache_size.host_blocks(model, setup.block_size, setup.swap_gib), needed)
    config = setup.scheduler(needed, host_blocks)
    shape = model.kv_shape(config.num_blocks, config.block_size)
    buckets = None
    if setup.cuda_graphs:
        buckets = cache_size.buckets(model, config.max_num_seqs, config.block_size, needed)
    runner = Runner(model, shape, host_blocks, buckets)
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


def fitted(setup: EngineSetup, model: models.Model) -> EngineSetup:
    """``setup`` with what was left open set to what suits ``model`` and its device."""
    tokens = setup.max_num_batched_tokens or step_tokens(model.device.type, setup.max_num_seqs)
    return replace(
        setup,
        block_size=cache_size.block_size(model, setup.block_size),
        max_num_batched_tokens=tokens,
    )
