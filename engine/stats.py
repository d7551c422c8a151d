"""What the engine loop counts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from engine.core.plan import Plan
from engine.core.scheduler import Scheduler
from engine.costs import MeasuredStep
from engine.readings import Reading

#: Steps kept for fitting a cost model.
_KEPT_STEPS = 4096


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot. Names are those of :data:`HELP`; times in seconds, ``kv_usage`` 0 to 1."""

    running: int
    waiting: int
    peak_running: int
    peak_waiting: int
    kv_usage: float
    preemptions: int
    scored: int
    unscored: int
    steps: int
    failed_steps: int
    step_seconds: float
    schedule_seconds: float
    prompt_tokens: int
    output_tokens: int

    def readings(self) -> list[Reading]:
        """By Prometheus name; see :data:`HELP`."""
        return [
            Reading(name, float(getattr(self, attribute)))
            for name, (attribute, _) in _METRICS.items()
        ]


_P = "shortfirst_engine_"
_METRICS: dict[str, tuple[str, str]] = {
    f"{_P}num_requests_running": ("running", "Requests that hold KV blocks."),
    f"{_P}num_requests_waiting": ("waiting", "Requests that wait to be scheduled."),
    f"{_P}num_requests_running_peak": ("peak_running", "Most requests that ran at once."),
    f"{_P}num_requests_waiting_peak": ("peak_waiting", "Most requests that waited at once."),
    f"{_P}kv_cache_usage_ratio": ("kv_usage", "Share of KV blocks that are held."),
    f"{_P}preemptions_total": ("preemptions", "Times a request lost its blocks."),
    f"{_P}requests_scored_total": ("scored", "Requests that were queued with a forecast."),
    f"{_P}requests_unscored_total": ("unscored", "Requests that were queued without a forecast."),
    f"{_P}steps_total": ("steps", "Steps that ran."),
    f"{_P}steps_failed_total": ("failed_steps", "Steps that raised an error."),
    f"{_P}step_seconds_total": ("step_seconds", "Time in the model and the sampler."),
    f"{_P}schedule_seconds_total": ("schedule_seconds", "Time in the scheduler."),
    f"{_P}prompt_tokens_computed_total": (
        "prompt_tokens",
        "Tokens prefilled, repeats after a preemption included.",
    ),
    f"{_P}tokens_sampled_total": ("output_tokens", "Tokens that were sampled."),
}

#: What each metric of :meth:`Stats.readings` means.
HELP: dict[str, str] = {name: help for name, (_, help) in _METRICS.items()}


@dataclass(slots=True)
class Counters:
    """Counts of one loop. The loop's lock guards them."""

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
    measured: deque[MeasuredStep] = field(default_factory=lambda: deque(maxlen=_KEPT_STEPS))

    def queued(self, scored: bool, waiting: int) -> None:
        self.scored += scored
        self.unscored += not scored
        self.peak_waiting = max(self.peak_waiting, waiting)

    def stepped(self, plan: Plan, sampled: int, running: int, seconds: float) -> None:
        """A step ran. ``seconds``: of the executor alone."""
        self.steps += 1
        self.step_seconds += seconds
        self.output_tokens += sampled
        self.prompt_tokens += plan.prefill_tokens
        self.peak_running = max(self.peak_running, running)
        if plan.steps and seconds > 0.0:
            context = sum(step.start + 1 for step in plan.steps if step.decodes)
            self.measured.append(
                MeasuredStep(plan.decode_tokens, plan.prefill_tokens, context, seconds)
            )

    def snapshot(self, scheduler: Scheduler) -> Stats:
        return Stats(
            running=scheduler.num_running,
            waiting=scheduler.num_waiting,
            peak_running=self.peak_running,
            peak_waiting=self.peak_waiting,
            kv_usage=scheduler.kv_usage,
            preemptions=scheduler.stats.preemptions,
            scored=self.scored,
            unscored=self.unscored,
            steps=self.steps,
            failed_steps=self.failed_steps,
            step_seconds=self.step_seconds,
            schedule_seconds=self.schedule_seconds,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
        )
