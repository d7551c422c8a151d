"""Does a saturated batch lane take the engine from a chat lane?

Chat arrives all the time; summaries of long texts lie there from the start, more than the engine
can do meanwhile. How many chat requests meet their objective, and what does it cost the summaries?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from engine import workload
from engine.bench.parallel import over_seeds
from engine.bench.service import output_within, prompts_within
from engine.comparison import Spread
from engine.core.lanes import Lane, LaneConfig, Slo
from engine.core.policies import Policy, make
from engine.core.request import Request
from engine.engine_profiles import EngineProfile
from engine.metrics import attainment
from engine.scenarios import served
from engine.simulator import simulate
from engine.timings import Timings
from engine.workload import Lengths

CHAT, BATCH = "chat", "batch"


@dataclass(frozen=True, slots=True)
class LanesConfig:
    """The study.

    requests: of chat. load: their work, of what full batches can do. backlog: work of the batch
    lane, over what chat leaves of the engine while it lasts; above 1 it is never done in time.
    token_budget: tokens of a step; prefill in small chunks keeps a chat's tokens coming.
    share: of chat, against 1 of batch, where shares count: in service, and in slots to reclaim.
    slo: of chat; MLPerf Inference asks 2 s and 200 ms of Llama-2-70B in its server scenario.
    chat_policy, batch_policy: order within a lane, and chat's also where there is one queue.

    Raises ``ValueError`` naming the field.
    """

    requests: int = 1500
    load: float = 0.4
    backlog: float = 2.0
    token_budget: int = 512
    share: float = 3.0
    slo: Slo = field(default_factory=lambda: Slo(ttft=2.0, tpot=0.2))
    chat_policy: str = "boost"
    batch_policy: str = "fcfs"
    tau: float = 0.5

    def __post_init__(self) -> None:
        if self.requests < 2:
            raise ValueError(f"requests must be at least 2, got {self.requests}")
        for name in ("load", "backlog", "share"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")


#: How chat and batch share the engine.
WAYS = ("chat alone", "one queue", "shares", "precedence", "precedence, reclaim")


@dataclass(frozen=True, slots=True)
class LanesRow:
    """One way over seeds. attainment: share of chat requests that met the objective. chat_ttft,
    chat_tpot: p99, seconds. batch_tokens: prompt and output tokens of the batch lane per second
    while chat lasted, over what it gets with the engine to itself."""

    way: str
    attainment: Spread
    chat_ttft: Spread
    chat_tpot: Spread
    batch_tokens: Spread


def study(
    config: LanesConfig,
    lengths: Lengths,
    profile: EngineProfile,
    seeds: Sequence[int],
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> list[LanesRow]:
    """One row per way; ``progress`` counts cells of a way and a seed."""
    world = _World(config, lengths, profile)
    found = over_seeds(partial(_cell, world), WAYS, seeds, jobs, progress)
    return [LanesRow(way, **Spread.each(runs)) for way, runs in zip(WAYS, found, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class _World:
    config: LanesConfig
    lengths: Lengths
    profile: EngineProfile

    def chat(self, rng: np.random.Generator) -> list[Request]:
        config, profile = self.config, self.profile
        rate = self.lengths.rate_at(config.load, profile.cost, profile.max_num_seqs)
        drawn, forecasts = served(self.lengths, config.requests, config.tau, rng)
        arrivals = workload.renewal(config.requests, rate, 1.0, rng)
        return workload.requests(arrivals, drawn, forecasts, lane=CHAT, prefix=f"{CHAT}-")

    def batch(self, seconds: float, rng: np.random.Generator) -> list[Request]:
        config, profile = self.config, self.profile
        texts = summaries(4000, rng)
        rate = texts.rate_at(1.0, profile.cost, profile.max_num_seqs)
        count = int(config.backlog * (1.0 - min(config.load, 0.9)) * rate * seconds) + 1
        drawn, forecasts = served(texts, count, config.tau, rng)
        return workload.requests(np.zeros(count), drawn, forecasts, lane=BATCH, prefix=f"{BATCH}-")

    def policies(self, way: str) -> Policy | list[Lane]:
        config = self.config
        chat, batch = self.policy(config.chat_policy), self.policy(config.batch_policy)
        if way in ("chat alone", "one queue"):
            return chat
        first = LaneConfig(CHAT, share=config.share, slo=config.slo)
        second = LaneConfig(BATCH)
        if way != "shares":
            first = replace(first, reclaim="reclaim" in way)
            second = replace(second, precedence=1)
        return [Lane(first, chat), Lane(second, batch)]

    def run(self, requests: Sequence[Request], policies: Policy | Sequence[Lane]) -> Timings:
        config = replace(self.profile.config, max_num_batched_tokens=self.config.token_budget)
        if not isinstance(policies, Sequence):
            requests = [replace(request, lane="") for request in requests]
        return simulate(requests, config, policies, self.profile.cost).timings

    def policy(self, name: str) -> Policy:
        return make(name, cost=self.profile.cost, batch=self.profile.max_num_seqs)


def summaries(count: int, rng: np.random.Generator) -> Lengths:
    """Lengths like those of arXiv summarisation in Vidur's traces: log-normal prompts of 2,588
    tokens on average and answers of 291."""
    prompt = np.exp(rng.normal(7.58, 0.755, count)).astype(np.int64)
    output = np.exp(rng.normal(5.36, 0.796, count)).astype(np.int64)
    return Lengths(np.clip(prompt, 16, 8192), np.clip(output, 1, 4096))


def _cell(world: _World, item: tuple[str, int]) -> dict[str, float]:
    way, seed = item
    rng = np.random.default_rng(seed)
    chat = world.chat(rng)
    seconds = max(request.arrival for request in chat)
    batch = world.batch(seconds, rng)
    timings = world.run(chat if way == "chat alone" else [*chat, *batch], world.policies(way))
    # One queue has one lane, so ids say whose a request is.
    is_chat = np.array([name.startswith(CHAT) for name in timings.ids])
    own, rest = timings.select(is_chat), timings.select(~is_chat)
    alone = world.run(batch, world.policy(world.config.batch_policy))
    return {
        "attainment": attainment(own, world.config.slo),
        "chat_ttft": float(np.percentile(own.ttft, 99)),
        "chat_tpot": float(np.nanpercentile(own.tpot, 99)),
        "batch_tokens": _tokens(rest, seconds) / _tokens(alone, seconds),
    }


def _tokens(timings: Timings, until: float) -> float:
    return prompts_within(timings, 0.0, until) + output_within(timings, 0.0, until)
