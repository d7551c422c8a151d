"""All policies on the same arrivals, with the monitor acting and without, over several seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from drift.config import MonitorConfig
from drift.reference import Reference
from engine.core.policies.base import Policy
from engine.core.policies.catalogue import make
from serving.drift_bench.acting.acts import Acts, Service
from serving.drift_bench.acting.config import ActingConfig
from serving.drift_bench.acting.loop import Loop, Run
from serving.drift_bench.acting.parts import Marks, Ratios, marks, masks, ratios
from serving.drift_bench.acting.scene import Scene, Story, scene, story
from serving.drift_bench.bench import Bench
from serving.drift_bench.config import BenchConfig
from serving.drift_bench.streams import Order
from serving.drift_bench.traffic import Traffic

FCFS = "fcfs"

#: Called when a run is done.
Advance = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One policy under one seed. ``marks`` are of its run with the monitor acting."""

    policy: str
    seed: int
    marks: Marks
    plain: dict[str, Ratios]
    acting: dict[str, Ratios]


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """One seed: ``plain`` runs by policy, FCFS among them, and those with the monitor acting."""

    seed: int
    scene: Scene
    plain: dict[str, Run]
    acting: dict[str, Run]

    def rows(self, config: ActingConfig) -> Iterator[Row]:
        tokens, fcfs = self.scene.tokens, self.plain[FCFS]
        for policy, acted in self.acting.items():
            found = marks(acted, config)
            parts = masks(found, config)
            plain, acting = (
                {name: ratios(run, fcfs, tokens, part, config.longest)
                 for name, part in parts.items()}
                for run in (self.plain[policy], acted)
            )  # fmt: skip
            yield Row(policy, self.seed, found, plain, acting)


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """``left``: tau-b after the change, of the reference's. ``replays``: those that are done."""

    config: ActingConfig
    monitor: MonitorConfig
    story: Story
    reference: Reference
    replays: tuple[Replayed, ...] = ()

    @property
    def left(self) -> float:
        return self.story.shift.pool.served(self.config.limit).tau / self.reference.tau.value

    @property
    def rows(self) -> list[Row]:
        return [row for replay in self.replays for row in replay.rows(self.config)]

    def run(self, advance: Advance = lambda: None) -> Iterator[Replayed]:
        """Replay one seed after the other."""
        config = self.config
        for seed in range(config.seeds):
            drawn = scene(self.story, config, np.random.default_rng([config.seed, seed]))
            plain: dict[str, Run] = {}
            acting: dict[str, Run] = {}
            for name in (FCFS, *config.policies):
                plain[name] = _run(drawn, name, config, None)
                advance()
                if name != FCFS:
                    service = Service(self.monitor, self.reference, config.act)
                    acting[name] = _run(drawn, name, config, service)
                    advance()
            yield Replayed(seed, drawn, plain, acting)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready but for NaN and infinity: unknown, and never."""
        return {
            "config": asdict(self.config),
            "shift": self.story.shift.name,
            "reference_tau": self.reference.tau.value,
            "left": self.left,
            "rows": [asdict(row) for row in self.rows],
        }


def runs_of(config: ActingConfig) -> int:
    """How many runs a study has."""
    return config.seeds * (1 + 2 * len(config.policies))


def study(traffic: Traffic, config: ActingConfig, monitor: MonitorConfig | None = None) -> Study:
    """One without replays: the monitor has learned its reference from validation rows.

    Raises ``ValueError`` for a shift or a policy that is not there.
    """
    monitor = monitor or MonitorConfig()
    told = story(traffic, config.shift)
    for name in config.policies:
        _policy(name, config)
    bench = Bench(BenchConfig(seed=config.seed))
    sample = bench.reference(told.usual, Order.INDEPENDENT, config.limit)
    return Study(config, monitor, told, Reference.of(sample, monitor))


def _run(drawn: Scene, name: str, config: ActingConfig, acts: Acts | None) -> Run:
    policy = _policy(name, config)
    return Loop(drawn, policy, config.streams.engine, acts, config.open_every).run()


def _policy(name: str, config: ActingConfig) -> Policy:
    engine = config.streams.engine
    return make(name, cost=engine.cost, batch=engine.scheduler.max_num_seqs)
