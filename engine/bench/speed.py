"""How long does a decision take when many wait? Times ``schedule`` on this machine."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time

import numpy as np

from engine import workload
from engine.comparison import Spread
from engine.core.config import SchedulerConfig
from engine.core.costs import CostModel
from engine.core.policies import Policy
from engine.core.request import Request
from engine.core.scheduler import Scheduler
from engine.workload import Lengths
from ranker.types import FinishReason


@dataclass(frozen=True, slots=True)
class SpeedConfig:
    """What is timed.

    running: requests that run. waiting: numbers of requests that wait, each timed in turn.
    steps: steps per repetition. repeats: repetitions, the sizes in turn, so that a noisy moment of
    the machine hits all of them. warmup: steps before the first. tau: of the forecasts.

    Raises ``ValueError`` naming the field.
    """

    running: int = 256
    waiting: tuple[int, ...] = (10_000, 100_000)
    steps: int = 1000
    repeats: int = 7
    warmup: int = 200
    tau: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("running", "steps", "repeats"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.waiting or min(self.waiting) < 1:
            raise ValueError(f"waiting must be one or more sizes of at least 1, got {self.waiting}")


@dataclass(frozen=True, slots=True)
class Speed:
    """Milliseconds of one call with ``waiting`` requests, over repetitions.

    Of the processor's time, but for ``wall_p99``, which a busy machine lengthens by whatever else
    it does meanwhile. add: mean of one scored arrival: validation, key and queue. admitted: per
    step.
    """

    waiting: int
    schedule_p50: Spread
    schedule_p99: Spread
    wall_p99: Spread
    commit_p50: Spread
    add: float
    admitted: float


def speed(
    config: SpeedConfig,
    lengths: Lengths,
    cost: CostModel,
    policy: Callable[[], Policy],
    progress: Callable[[int], None] = lambda done: None,
) -> list[Speed]:
    """One row per size. ``progress`` counts repetitions over all sizes.

    The load is an engine in its stride: answers run to their length, and for each that ends one
    arrives, so as many wait after every step as before it. Those that wait from the start have no
    forecast: a policy that lets short ones go first would otherwise admit more in each step the
    more there are to choose from, and the queue's own cost could not be told from that.
    """
    rng = np.random.default_rng(config.seed)
    drawn = lengths.take(rng.integers(0, len(lengths), 4096))
    scores = workload.noisy_scores(drawn.output_tokens, config.tau, rng)
    forecasts = workload.calibrated(scores, scores, drawn.output_tokens)
    templates = workload.requests(np.zeros(len(drawn)), drawn, forecasts)
    engines = []
    for waiting in config.waiting:
        engines.append(_Engine(config, waiting, templates, cost, policy()))
        engines[-1].run(config.warmup)
    rows: list[list[_Sample]] = [[] for _ in engines]
    # As a server does once it is up: what lives on is not to be looked through again and again.
    gc.collect()
    gc.freeze()
    try:
        for repeat in range(config.repeats):
            for index, engine in enumerate(engines):
                rows[index].append(engine.run(config.steps))
                progress(repeat * len(engines) + index + 1)
    finally:
        gc.unfreeze()
    return [
        _summary(engine, samples, config.steps)
        for engine, samples in zip(engines, rows, strict=True)
    ]


def p99_ratio(rows: Sequence[Speed]) -> float:
    """p99 of the most waiting over that of the fewest: 1 when the queue's length costs nothing."""
    ordered = sorted(rows, key=lambda row: row.waiting)
    return ordered[-1].schedule_p99.median / ordered[0].schedule_p99.median


@dataclass(frozen=True, slots=True)
class _Sample:
    schedule: list[float]
    wall: list[float]
    commit: list[float]
    admitted: int


class _Engine:
    """A scheduler with as many waiting as asked for, kept there."""

    def __init__(
        self,
        config: SpeedConfig,
        waiting: int,
        templates: Sequence[Request],
        cost: CostModel,
        policy: Policy,
    ) -> None:
        self.waiting = waiting
        self._templates = templates
        self._cost = cost
        self._now = 0.0
        self._arrived = 0
        longest = max(r.prompt_tokens + (r.true_tokens or 0) for r in templates)
        self._scheduler = Scheduler(
            SchedulerConfig(
                max_num_seqs=config.running,
                max_num_batched_tokens=max(4096, config.running),
                block_size=16,
                num_blocks=(longest // 16 + 2) * config.running,  # memory is not what is timed
                max_waiting=waiting + config.running,
                cost=cost,
            ),
            policy,
        )
        self._add_seconds = 0.0  # of scored ones
        self._added = 0
        for _ in range(waiting + config.running):
            self._now += 0.01
            self._add(scored=False)

    def run(self, steps: int) -> _Sample:
        scheduler = self._scheduler
        scheduled: list[float] = []
        walls: list[float] = []
        committed: list[float] = []
        queue = self._arrived - scheduler.num_waiting
        for _ in range(steps):
            wall, begun = perf_counter(), thread_time()
            plan = scheduler.schedule(self._now)
            scheduled.append(thread_time() - begun)
            walls.append(perf_counter() - wall)
            finished = {}
            for step in plan.steps:
                request = scheduler.get(step.request_id)
                assert request is not None
                if step.samples and request.output_tokens + 1 == request.true_tokens:
                    finished[request.id] = FinishReason.STOP
            self._now += self._cost.step(plan.decode_tokens, plan.prefill_tokens)
            begun = thread_time()
            scheduler.commit(plan, finished, self._now)
            committed.append(thread_time() - begun)
            begun = thread_time()
            come = self.waiting - scheduler.num_waiting
            for _ in range(come):
                self._add()
            self._add_seconds += thread_time() - begun
            self._added += come
        return _Sample(scheduled, walls, committed, self._arrived - scheduler.num_waiting - queue)

    @property
    def mean_add(self) -> float:
        return self._add_seconds / max(1, self._added)

    def _add(self, scored: bool = True) -> None:
        like = self._templates[self._arrived % len(self._templates)]
        self._scheduler.add(
            Request(
                id=str(self._arrived),
                arrival=self._now,
                prompt_tokens=like.prompt_tokens,
                forecast=like.forecast if scored else None,
                true_tokens=like.true_tokens,
            )
        )
        self._arrived += 1


def _summary(engine: _Engine, samples: Sequence[_Sample], steps: int) -> Speed:
    def spread(calls: Sequence[Sequence[float]], percent: float) -> Spread:
        return Spread.of([1000.0 * float(np.percentile(call, percent)) for call in calls])

    schedule = [sample.schedule for sample in samples]
    return Speed(
        waiting=engine.waiting,
        schedule_p50=spread(schedule, 50),
        schedule_p99=spread(schedule, 99),
        wall_p99=spread([sample.wall for sample in samples], 99),
        commit_p50=spread([sample.commit for sample in samples], 50),
        add=1000.0 * engine.mean_add,
        admitted=sum(sample.admitted for sample in samples) / (steps * len(samples)),
    )
