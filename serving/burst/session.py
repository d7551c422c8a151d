"""Engines that differ in their policy alone, one burst through their public API, the comparison."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from drift.tau import Tau, kendall_tau
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import Policy, make
from engine.core.request import Request
from engine.efficiency import Efficiency, sjf_efficiency
from ranker.types import Forecast
from serving import cores
from serving.burst.client import Lengths, Reply, Sampling, drive
from serving.burst.compare import PolicyResult, compare
from serving.burst.items import BurstConfig, Item, draw
from serving.engine_options import cost_model, step_tokens
from serving.processes import Service, Services
from serving.rank_query import query

if TYPE_CHECKING:
    from training.sources import Example

#: FCFS first: what the others are compared with.
BASELINE = "fcfs"
#: How long an engine waits for a forecast.
DEADLINE_MS = 200


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """What to compare and how.

    ``policy`` against fcfs; ``setting`` of boost. ``max_num_seqs``: requests an engine runs at
    once; a burst that fits in leaves nothing to schedule. ``together``: see
    :func:`serving.burst.compare.compare`. ``threads`` of each engine; 0 shares the cores out.
    """

    policy: str = "boost"
    setting: str = "fast"
    max_num_seqs: int = 8
    threads: int = 0
    kv_gib: float = 0.5
    repeats: int = 1
    together: bool = True
    burst: BurstConfig = field(default_factory=BurstConfig)
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        if self.policy == BASELINE:
            raise ValueError("policy must differ from fcfs, which it is compared with")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")
        if self.burst.requests <= self.max_num_seqs:
            raise ValueError(
                f"requests: {self.burst.requests} all run at once on an engine with "
                f"{self.max_num_seqs} slots, so nothing queues and no order can help; send more"
            )

    @property
    def policies(self) -> tuple[str, str]:
        return (BASELINE, self.policy)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of it. ``tau`` and ``efficiency`` are those of the first repetition's burst;
    ``efficiency`` replays it in the simulator with the cost model that the engine measured."""

    results: dict[str, PolicyResult]
    items: list[list[Item]]
    forecasts: list[Forecast]
    tau: Tau
    efficiency: Efficiency
    cost: CostModel
    ranker: str

    @property
    def baseline(self) -> PolicyResult:
        return self.results[BASELINE]

    @property
    def learned(self) -> PolicyResult:
        return next(result for name, result in self.results.items() if name != BASELINE)


def bursts(examples: Sequence[Example], config: SessionConfig) -> list[list[Item]]:
    """One burst per repetition, each a draw of its own from held-out examples."""
    rows = [(e.id, e.prompt, e.output_tokens) for e in examples]
    return [
        draw(rows, replace(config.burst, seed=config.burst.seed + repetition))
        for repetition in range(config.repeats)
    ]


def start_engines(
    services: Services, rank: Service, rank_model: str, config: SessionConfig
) -> dict[str, Service]:
    """One engine per policy, alike in everything else, once all are ready."""
    threads = config.threads or max(1, cores.usable() // (2 if config.together else 1))
    imposed = config.sampling.lengths is Lengths.LOG
    pending = {
        policy: services.launch(
            f"engine-{policy}",
            ["engine", "--policy", policy, "--boost", config.setting,
             "--rank-target", rank.address("grpc"), "--rank-model", rank_model,
             "--rank-deadline-ms", str(DEADLINE_MS), "--no-report" if imposed else "--report",
             "--max-num-seqs", str(config.max_num_seqs), "--threads", str(threads),
             "--kv-gib", str(config.kv_gib), "--grpc-port", "0", "--http-port", "0"],
        )
        for policy in config.policies
    }  # fmt: skip
    return {policy: starting.wait() for policy, starting in pending.items()}


def run(
    engines: dict[str, Service],
    rank: Service,
    rank_model: str,
    items: list[list[Item]],
    config: SessionConfig,
    progress: Callable[[int], None] = lambda tokens: None,
) -> Comparison:
    """Send the bursts and compare.

    Raises ``ServiceFailed`` when a service died meanwhile or a stream ended with an error, and
    ``grpc.RpcError`` when a call failed.
    """

    async def one(policy: str, repetition: int) -> list[Reply]:
        return await drive(
            engines[policy].address("grpc"),
            items[repetition],
            config.sampling,
            run=f"{policy}-{repetition}",
            progress=progress,
        )

    async def all_of_them() -> dict[str, PolicyResult]:
        for policy in config.policies:  # the first request of a process pays for its memory
            await drive(
                engines[policy].address("grpc"),
                [replace(items[0][0], output_tokens=8, at=0.0)],
                replace(config.sampling, lengths=Lengths.LOG),
                run=f"{policy}-warm-up",
            )
        return await compare(config.policies, config.repeats, one, together=config.together)

    try:
        results = asyncio.run(all_of_them())
    except BaseExceptionGroup as group:
        for service in (*engines.values(), rank):
            service.check()
        raise group.exceptions[0] from None
    answer = query(rank.address("grpc"), [i.prompt for i in items[0]], rank_model, timeout_s=30.0)
    return _judged(results, items, list(answer.forecasts), engines, config)


def _judged(
    results: dict[str, PolicyResult],
    items: list[list[Item]],
    forecasts: list[Forecast],
    engines: dict[str, Service],
    config: SessionConfig,
) -> Comparison:
    first = results[config.policy].runs[0]
    cost = _cost(engines[config.policy])
    requests = [
        Request(
            id=reply.timing.request_id,
            arrival=item.at,
            prompt_tokens=reply.timing.prompt_tokens,
            forecast=forecast,
            true_tokens=reply.timing.output_tokens,
        )
        for item, reply, forecast in zip(items[0], first, forecasts, strict=True)
    ]
    longest = max(r.prompt_tokens + (r.true_tokens or 0) for r in requests)
    scheduler = SchedulerConfig(
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=step_tokens("cpu", config.max_num_seqs),
        block_size=32,
        num_blocks=(longest // 32 + 2) * config.max_num_seqs,
    )

    def policy() -> Policy:
        return make(config.policy, cost=cost, batch=config.max_num_seqs, setting=config.setting)

    return Comparison(
        results=results,
        items=items,
        forecasts=forecasts,
        tau=kendall_tau(
            [f.score for f in forecasts],
            [reply.timing.output_tokens for reply in first],
            # An imposed limit is the recorded length; the model's own runs past its limit.
            [reply.cut and config.sampling.lengths is Lengths.OWN for reply in first],
        ),
        efficiency=sjf_efficiency(requests, scheduler, cost, policy),
        cost=cost,
        ranker=f"{forecasts[0].ranker} version {forecasts[0].version}",
    )


def _cost(engine: Service) -> CostModel:
    cost = cost_model(engine.address("cost"))
    assert cost is not None  # the engine of a learned policy always tells it
    return cost
