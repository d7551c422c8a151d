"""What can be seen of an engine loop from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.stats import SchedulerStats
from engine.pace import Cause
from engine.readings import Distribution, Reading

_P = "shortfirst_engine_"
#: Name, where the number is, and what it means. A dot leads into :class:`SchedulerStats`.
_PLAIN = (
    ("num_requests_running", "running", "Requests that run."),
    ("num_requests_waiting", "waiting", "Requests that wait to be scheduled."),
    ("num_requests_running_peak", "peak_running", "Most requests that ran at once."),
    ("num_requests_waiting_peak", "peak_waiting", "Most requests that waited at once."),
    ("kv_cache_usage_ratio", "kv_usage", "Share of KV blocks that requests hold."),
    ("requests_scored_total", "scored", "Requests that were queued with a forecast."),
    ("requests_unscored_total", "unscored", "Requests that were queued without a forecast."),
    ("steps_total", "steps", "Steps that ran."),
    ("steps_failed_total", "failed_steps", "Steps that raised an error."),
    ("step_seconds_total", "step_seconds", "Time in the model and the sampler."),
    ("schedule_seconds_total", "schedule_seconds", "Time in the scheduler."),
    (
        "prompt_tokens_computed_total", "prompt_tokens",
        "Tokens prefilled, repeats after a preemption included.",
    ),
    ("tokens_sampled_total", "output_tokens", "Tokens that were sampled."),
    (
        "paused_evictions_total", "scheduler.evicted_paused",
        "Requests that gave up a slot for order or lane and lost their blocks while they waited.",
    ),
    (
        "recomputed_tokens_total", "scheduler.recomputed_tokens",
        "Tokens computed again after a preemption.",
    ),
    (
        "swapped_tokens_total", "scheduler.swapped_tokens",
        "Tokens moved between device and host, each way counted.",
    ),
    (
        "prefix_cache_queries_total", "scheduler.memory.queried_tokens",
        "Prompt tokens that were looked up in the prefix cache.",
    ),
    (
        "prefix_cache_hits_total", "scheduler.memory.prefix_hit_tokens",
        "Prompt tokens found there, because another request began alike.",
    ),
    (
        "resume_hits_total", "scheduler.memory.resume_hit_tokens",
        "Tokens of preempted requests found there when they came back; mostly their own.",
    ),
    (
        "prefix_cache_evictions_total", "scheduler.memory.evicted_blocks",
        "Cached blocks whose memory was needed.",
    ),
    ("copied_blocks_total", "scheduler.memory.copied_blocks", "Shared blocks copied on write."),
    (
        "spec_decode_num_drafts_total", "scheduler.drafts",
        "Times that guesses of a request's next tokens were verified.",
    ),
    ("spec_decode_num_draft_tokens_total", "scheduler.drafted_tokens", "Tokens guessed."),
    ("spec_decode_num_accepted_tokens_total", "scheduler.accepted_tokens", "Guesses that stood."),
    (
        "spec_decode_draft_acceptance_ratio", "scheduler.acceptance",
        "Share of all guesses that stood.",
    ),
)  # fmt: skip
_CAUSES = ("memory", "order", "lane")
_PREEMPTIONS = f"{_P}preemptions_total"
_STALLS = f"{_P}stall_seconds_total"
STEP_TOKENS = f"{_P}iteration_tokens_total"
_LANES = (
    ("lane_num_requests_waiting", "waiting", "Requests of a lane that wait."),
    ("lane_num_requests_running", "running", "Requests of a lane that run."),
    ("lane_requests_ended_total", "ended", "Requests that ended; not those their caller gave up."),
    ("lane_slo_met_total", "met", "Those of them that met the lane's objective."),
    ("lane_requests_refused_total", "refused", "Requests that found a lane or the queue full."),
)

#: What each metric of a :class:`Stats` means.
HELP: dict[str, str] = {
    **{f"{_P}{name}": help for name, _, help in (*_PLAIN, *_LANES)},
    _PREEMPTIONS: "Slots that requests lost: others had to grow, went first, or it was lent.",
    _STALLS: "Seconds that tokens came later than plain decoding would have brought them.",
    STEP_TOKENS: "Tokens of a step, prefilled and decoded.",
}


@dataclass(frozen=True, slots=True)
class LaneStats:
    """Of one lane. ``ended`` leaves out aborted requests; ``met`` are those within its SLO."""

    name: str
    waiting: int
    running: int
    ended: int
    met: int
    refused: int


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot; times in seconds, ``kv_usage`` 0 to 1."""

    running: int
    waiting: int
    peak_running: int
    peak_waiting: int
    kv_usage: float
    scored: int
    unscored: int
    steps: int
    failed_steps: int
    step_seconds: float
    schedule_seconds: float
    prompt_tokens: int
    output_tokens: int
    scheduler: SchedulerStats
    stalls: Mapping[Cause, float]
    step_tokens: Distribution
    lanes: tuple[LaneStats, ...]

    def readings(self) -> list[Reading]:
        """By Prometheus name; see :data:`HELP`."""
        found = [Reading(f"{_P}{name}", _at(self, path)) for name, path, _ in _PLAIN]
        for cause in _CAUSES:
            count = float(getattr(self.scheduler, f"preempted_for_{cause}"))
            found.append(Reading(_PREEMPTIONS, count, (("cause", cause),)))
        for stall in Cause:
            found.append(Reading(_STALLS, self.stalls[stall], (("cause", stall.value),)))
        for lane in self.lanes:
            labels = (("lane", lane.name),)
            found += [Reading(f"{_P}{n}", float(getattr(lane, a)), labels) for n, a, _ in _LANES]
        return found


def _at(record: object, path: str) -> float:
    for name in path.split("."):
        record = getattr(record, name)
    assert isinstance(record, int | float)
    return float(record)
