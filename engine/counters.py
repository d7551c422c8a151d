"""What the engine loop counts as it goes; the loop's lock guards it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.lanes import Lane
from engine.core.plan import Plan
from engine.core.scheduler import Scheduler
from engine.costs import MeasuredStep
from engine.events import Latencies
from engine.histogram import Histogram
from engine.pace import Cause
from engine.stats import STEP_TOKENS, LaneStats, Stats
from ranker.types import FinishReason

#: Steps kept for fitting a cost model.
_KEPT_STEPS = 4096
#: As vLLM's ``iteration_tokens_total``.
_STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(slots=True)
class Counters:
    """Counts of one loop since its start. ``ended``, ``met`` and ``refused`` are by lane."""

    peak_running: int = 0
    peak_waiting: int = 0
    scored: int = 0
    unscored: int = 0
    steps: int = 0
    failed_steps: int = 0
    step_seconds: float = 0.0
    schedule_seconds: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    measured: deque[MeasuredStep] = field(default_factory=lambda: deque(maxlen=_KEPT_STEPS))
    step_tokens: Histogram = field(default_factory=lambda: Histogram(_STEP_TOKENS))
    _mark: float | None = None  #: when the last step was over, if nothing was waited for since

    def queued(self, scored: bool, waiting: int) -> None:
        self.scored += scored
        self.unscored += not scored
        self.peak_waiting = max(self.peak_waiting, waiting)

    def stepped(self, plan: Plan, drafted: int, sampled: int, running: int, seconds: float) -> None:
        """A step ran, in which so many of its drafts were proposed. ``seconds``: of the executor
        alone."""
        self.steps += 1
        self.step_seconds += seconds
        self.output_tokens += sampled
        self.prompt_tokens += plan.prefill_tokens
        self.step_tokens.observe(plan.tokens - plan.drafts + drafted)
        self.peak_running = max(self.peak_running, running)

    def idle(self) -> None:
        """The thread waits for something to do."""
        self._mark = None

    def cycled(self, plan: Plan, drafted: int, begun: float, ended: float) -> None:
        """All of a step is over: scheduling, model, text. What the thread did since the step before
        counts too, unless it waited. Drafts are computed side by side, as a prompt is."""
        start, self._mark = begun if self._mark is None else self._mark, ended
        if plan.steps and not plan.swapped_blocks and ended > start:
            context = sum(step.start + 1 for step in plan.steps if step.decodes)
            decodes, prefill = plan.decode_tokens - plan.drafts, plan.prefill_tokens + drafted
            self.measured.append(MeasuredStep(decodes, prefill, context, ended - start))

    def finished(self, lane: Lane, reason: FinishReason, latencies: Latencies | None) -> None:
        """A request ended. One that its caller gave up says nothing about the objective; one that
        the engine failed missed it."""
        if reason is FinishReason.ABORT:
            return
        self.ended[lane.name] += 1
        if reason is not FinishReason.ERROR and latencies is not None:
            self.met[lane.name] += lane.config.slo.met(*latencies)

    def snapshot(self, scheduler: Scheduler, stalls: Mapping[Cause, float]) -> Stats:
        return Stats(
            running=scheduler.num_running,
            waiting=scheduler.num_waiting,
            peak_running=self.peak_running,
            peak_waiting=self.peak_waiting,
            kv_usage=scheduler.kv_usage,
            scored=self.scored,
            unscored=self.unscored,
            steps=self.steps,
            failed_steps=self.failed_steps,
            step_seconds=self.step_seconds,
            schedule_seconds=self.schedule_seconds,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            scheduler=scheduler.stats,
            stalls=dict(stalls),
            step_tokens=self.step_tokens.reading(STEP_TOKENS),
            lanes=tuple(
                LaneStats(
                    name=lane.name,
                    waiting=scheduler.waiting_in(lane.name),
                    running=scheduler.running_in(lane.name),
                    ended=self.ended[lane.name],
                    met=self.met[lane.name],
                    refused=self.refused[lane.name],
                )
                for lane in scheduler.lanes
            ),
        )
