"""Does a tenant that floods the engine take it from the others?

Two situations. In the first one tenant sends many times its share and the others stay within
theirs: their latencies should hardly notice. In the second all ask for more than their share, each
for another multiple of it: service should be equal all the same (Jain's index).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from engine import workload
from engine.bench.parallel import over_seeds
from engine.comparison import Spread
from engine.core.budgets import Budget
from engine.core.fairness import FairnessConfig
from engine.core.policies import Policy, make
from engine.core.request import Request
from engine.engine_profiles import EngineProfile
from engine.replica import Replica
from engine.scenarios import served
from engine.simulator import simulate
from engine.tenancy import Tenancy
from engine.timings import Timings
from engine.workload import Floats, Lengths

FLOODER = "tenant 0"


@dataclass(frozen=True, slots=True)
class FairnessStudyConfig:
    """The study.

    requests: of all tenants while nobody floods. load: work they offer then, of what full batches
    can do. flood: how many times its share the flooding tenant sends. greed: least and most that
    the tenants of the second situation ask for, as multiples of an equal share of the engine.
    budget: tokens per second a tenant may use where budgets are tried, as a multiple of its share.
    policies: what orders requests within a tenant.

    Raises ``ValueError`` naming the field.
    """

    requests: int = 2400
    tenants: int = 8
    load: float = 0.8
    flood: float = 10.0
    greed: tuple[float, float] = (1.5, 10.0)
    budget: float = 2.0
    tau: float = 0.5
    policies: tuple[str, ...] = ("fcfs", "boost")

    def __post_init__(self) -> None:
        if self.tenants < 2:
            raise ValueError(f"tenants must be at least 2, got {self.tenants}")
        if self.requests < self.tenants:
            raise ValueError(f"requests must be at least one per tenant, got {self.requests}")
        if not self.load > 0.0:
            raise ValueError(f"load must be above 0, got {self.load}")
        for name in ("flood", "budget"):
            if not getattr(self, name) >= 1.0:
                raise ValueError(f"{name} must be at least 1 share, got {getattr(self, name)}")
        if not 1.0 < self.greed[0] <= self.greed[1]:
            raise ValueError(f"greed must ascend from above 1, so that all wait, got {self.greed}")


#: Means against a flood: none, virtual token counters, those and a budget for each tenant.
MEANS = ("none", "counters", "counters and budgets")


@dataclass(frozen=True, slots=True)
class FairnessRow:
    """One policy with one means, over seeds.

    others_p99, others_mean: E2EL of the other tenants under the flood, over theirs under the same
    policy and means without it. others_tpot: their mean TPOT likewise: not waiting but longer
    steps, since a flood fills all slots. worst_p99: p99 E2EL of the tenant that suffers most.
    flooder_mean: mean E2EL of the flooder. jain: of the service of tenants that all want more than
    their share, over an eighth of the time each, among those that had somebody waiting all through.
    """

    policy: str
    means: str
    others_p99: Spread
    others_mean: Spread
    others_tpot: Spread
    worst_p99: Spread
    flooder_mean: Spread
    jain: Spread


def study(
    config: FairnessStudyConfig,
    lengths: Lengths,
    profile: EngineProfile,
    seeds: Sequence[int],
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> list[FairnessRow]:
    """One row per policy and means; ``progress`` counts cells of a policy, means and seed."""
    world = _World(config, lengths, profile)
    cells = [(policy, means) for policy in config.policies for means in MEANS]
    found = over_seeds(partial(_cell, world), cells, seeds, jobs, progress)
    return [
        FairnessRow(policy, means, **Spread.each(runs))
        for (policy, means), runs in zip(cells, found, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _World:
    config: FairnessStudyConfig
    lengths: Lengths
    profile: EngineProfile

    @property
    def rate(self) -> float:
        """Requests per second of full batches."""
        return self.lengths.rate_at(1.0, self.profile.cost, self.profile.max_num_seqs)

    def run(self, requests: Sequence[Request], policy: str, means: str) -> Timings:
        return simulate(
            requests,
            self.profile.config,
            self._policy(policy),
            self.profile.cost,
            fairness=self._fairness(means),
        ).timings

    def contend(self, requests: Sequence[Request], policy: str, means: str, until: float) -> float:
        """Jain's index by then; what still waits says nothing more."""
        replica = Replica(
            self.profile.config,
            self._policy(policy),
            self.profile.cost,
            fairness=self._fairness(means),
            tenancy=Tenancy(window=until / 8.0),
        )
        for request in requests:
            replica.submit(request)
        replica.advance(until)
        return replica.result().jain

    def _policy(self, name: str) -> Policy:
        return make(name, cost=self.profile.cost, batch=self.profile.max_num_seqs)

    def _fairness(self, means: str) -> FairnessConfig | None:
        if means == "none":
            return None
        if means == "counters":
            return FairnessConfig()
        size = float((self.lengths.prompt_tokens + self.lengths.output_tokens).mean())
        share = self.rate * self.config.load / self.config.tenants * size
        rate = self.config.budget * share
        return FairnessConfig(default_budget=Budget(rate, burst=10.0 * rate))

    def normal(self, rng: np.random.Generator) -> list[Request]:
        """Everybody within its share."""
        config = self.config
        arrivals = workload.renewal(config.requests, self.rate * config.load, 1.0, rng)
        whose = rng.integers(0, config.tenants, config.requests)
        return self._requests(arrivals, whose, rng)

    def more(self, until: float, rng: np.random.Generator) -> list[Request]:
        """What the flooder sends beyond its share, until then."""
        config = self.config
        rate = self.rate * config.load / config.tenants * (config.flood - 1.0)
        arrivals = _poisson_until(rate, until, rng)
        return self._requests(arrivals, np.zeros(len(arrivals), dtype=np.int64), rng, "flood-")

    def greedy(self, until: float, rng: np.random.Generator) -> list[Request]:
        """Everybody above its share, each by another multiple."""
        config = self.config
        streams = [
            _poisson_until(self.rate / config.tenants * multiple, until, rng)
            for multiple in np.geomspace(*config.greed, config.tenants)
        ]
        whose = np.repeat(np.arange(config.tenants), [len(stream) for stream in streams])
        arrivals = np.concatenate(streams)
        order = np.argsort(arrivals)
        return self._requests(arrivals[order], whose[order], rng)

    def _requests(
        self, arrivals: Floats, whose: workload.Ints, rng: np.random.Generator, name: str = ""
    ) -> list[Request]:
        if not len(arrivals):
            return []
        drawn, forecasts = served(self.lengths, len(arrivals), self.config.tau, rng)
        tenants = [f"tenant {tenant}" for tenant in whose]
        return workload.requests(arrivals, drawn, forecasts, tenants=tenants, prefix=name)


def _poisson_until(rate: float, until: float, rng: np.random.Generator) -> Floats:
    return np.sort(rng.uniform(0.0, until, rng.poisson(rate * until)))


def _cell(world: _World, item: tuple[tuple[str, str], int]) -> dict[str, float]:
    (policy, means), seed = item
    rng = np.random.default_rng(seed)
    normal = world.normal(rng)
    until = max(request.arrival for request in normal)
    flood = [*normal, *world.more(until, rng)]
    without, under = (world.run(each, policy, means).by_tenant() for each in (normal, flood))
    others = [tenant for tenant in without if tenant != FLOODER]
    before, after = (_pooled(split, others, "e2el") for split in (without, under))
    tpot, longer = (_pooled(split, others, "tpot") for split in (without, under))
    return {
        "others_p99": float(np.percentile(after, 99) / np.percentile(before, 99)),
        "others_mean": float(after.mean() / before.mean()),
        "others_tpot": float(np.nanmean(longer) / np.nanmean(tpot)),
        "worst_p99": max(
            float(np.percentile(under[t].e2el, 99) / np.percentile(without[t].e2el, 99))
            for t in others
        ),
        "flooder_mean": float(under[FLOODER].e2el.mean() / without[FLOODER].e2el.mean()),
        "jain": world.contend(world.greedy(until, rng), policy, means, until),
    }


def _pooled(split: dict[str, Timings], tenants: Sequence[str], latency: str) -> Floats:
    return np.concatenate([getattr(split[tenant], latency) for tenant in tenants])
