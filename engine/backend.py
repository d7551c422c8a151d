"""A model, its cache, a scheduler and the loop that drives them, as one thing to serve."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine import cache_size
from engine.core.fairness import FairnessConfig
from engine.core.lanes import Lane
from engine.core.policies.base import Policy
from engine.core.scheduler import Scheduler, SchedulerConfig
from engine.costs import MeasuredStep
from engine.drafting.speculative import Speculative
from engine.events import LaneInfo
from engine.executor import TorchExecutor
from engine.hashing import BlockHasher
from engine.live import OnOutcome
from engine.loop import EngineLoop
from engine.models import Model
from engine.readings import Distribution, Reading
from engine.runner import Runner
from engine.sampling import SamplingParams
from engine.stats import HELP, Stats
from engine.stop import StopRule
from engine.stream import Stream
from engine.vocabulary import Vocabulary
from ranker.types import Forecast, Outcome


@dataclass(frozen=True, slots=True)
class ThreadsConfig:
    """Threads of torch's pool within one step.

    One is the default where anything else runs on the machine: OpenMP waits at every operator for
    its slowest thread, and a thread that lost its core holds all others up (measured: a tenth of
    the speed with two threads on two busy cores).
    """

    compute: int = 1

    def __post_init__(self) -> None:
        if self.compute < 1:
            raise ValueError(f"threads.compute must be >= 1, got {self.compute}")

    def apply(self) -> None:
        """Of the whole process, as torch has it."""
        torch.set_num_threads(self.compute)


class TorchBackend:
    """Serves ``model``; started by the constructor, ended by :meth:`close`.

    ``lanes`` and ``fairness`` as :class:`~engine.core.scheduler.Scheduler` takes them.
    ``cuda_graphs``: record the decode steps, where ``model`` is on a GPU. ``speculative``: verify
    guesses of what comes next, which needs ``config.cost``.
    """

    def __init__(
        self,
        model: Model,
        config: SchedulerConfig,
        lanes: Policy | Sequence[Lane],
        *,
        fairness: FairnessConfig | None = None,
        cuda_graphs: bool = True,
        speculative: Speculative | None = None,
        on_outcome: OnOutcome | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._model = model
        self._vocabulary = Vocabulary(model.tokenizer)
        self.config = config
        #: Tokens, prompt and answer together, that one request may have.
        self.context_length = min(model.context_length, config.capacity)
        shape = model.kv_shape(config.num_blocks, config.block_size)
        buckets = None
        if cuda_graphs:
            drafts = 0 if speculative is None else speculative.config.max_drafts
            buckets = cache_size.buckets(
                model, config.max_num_seqs, config.block_size, config.num_blocks, drafts
            )
        runner = Runner(model, shape, config.host_blocks, buckets)
        scheduler = Scheduler(
            config, lanes, fairness=fairness,
            speculation=None if speculative is None else speculative.config,
        )  # fmt: skip
        self._lanes = tuple(
            LaneInfo(lane.name, priorities=lane.policy.name == "priority")
            for lane in scheduler.lanes
        )
        self._loop = EngineLoop(
            scheduler,
            TorchExecutor(runner, None if speculative is None else speculative.drafter),
            StopRule(model.eos, self.context_length),
            self._vocabulary.detokeniser,
            served_model=model.name,
            on_outcome=on_outcome,
            hasher=BlockHasher(config.block_size) if config.prefix_cache else None,
            clock=clock,
            wall=wall,
        )
        self._loop.start()

    @property
    def model(self) -> str:
        """The name it is served under."""
        return self._model.name

    @property
    def alive(self) -> bool:
        return self._loop.alive

    @property
    def lanes(self) -> tuple[LaneInfo, ...]:
        """The lanes that a request may name, the first being that of those that name none."""
        return self._lanes

    def encode(self, prompt: str) -> list[int]:
        """Tokens of a text. Thread-safe."""
        return self._model.encode(prompt)

    def encode_chat(self, turns: Sequence[tuple[str, str]], **template: Any) -> list[int]:
        """As :meth:`Model.encode_chat`."""
        return self._model.encode_chat(turns, **template)

    def text(self, token_ids: Sequence[int]) -> str:
        """What tokens say, special ones included."""
        return self._vocabulary.text(token_ids, skip_special=False)

    def token_bytes(self, token: int) -> bytes:
        """What one token says: perhaps half a character."""
        return self._vocabulary.bytes_of(token)

    async def submit(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        sampling: SamplingParams,
        forecast: Forecast | None,
        tenant: str,
        arrival: float,
        lane: str = "",
        priority: int = 0,
    ) -> Stream:
        """As :meth:`EngineLoop.submit`."""
        return await self._loop.submit(
            request_id, prompt_ids, sampling, forecast, tenant, arrival, lane, priority
        )

    def abort(self, request_id: str) -> None:
        """End a request early; unknown and finished ids are ignored."""
        self._loop.abort(request_id)

    def position(self, request_id: str) -> int | None:
        """Requests of its lane that wait before it; 0 once it runs, ``None`` when it ended."""
        return self._loop.position(request_id)

    def under_way(self) -> list[Outcome]:
        """As :meth:`EngineLoop.under_way`."""
        return self._loop.under_way()

    def drain(self, timeout_s: float) -> bool:
        """As :meth:`EngineLoop.drain`; blocks."""
        return self._loop.drain(timeout_s)

    @property
    def stats_help(self) -> Mapping[str, str]:
        """What each metric of :meth:`stats` means."""
        return HELP

    def stats(self) -> list[Reading | Distribution]:
        """Gauges, counters and histograms by Prometheus name."""
        stats = self._loop.stats()
        return [*stats.readings(), stats.step_tokens]

    def snapshot(self) -> Stats:
        """The same as a record."""
        return self._loop.stats()

    def measured_steps(self) -> list[MeasuredStep]:
        """The newest steps with their times, to fit a cost model to."""
        return self._loop.measured_steps()

    def close(self) -> None:
        """Stop the loop; requests that are left end as aborted."""
        self._loop.close()
