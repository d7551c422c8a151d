"""What a job must keep to before any work is done for it."""

from __future__ import annotations

from collections.abc import Sequence

from engine.events import LaneInfo
from serving.errors import invalid
from serving.job import Job
from serving.limits import Limits

#: Priorities are int32 on the wire of gRPC, so that both edges take the same.
_LOWEST, _HIGHEST = -(2**31), 2**31 - 1


def check_job(job: Job, limits: Limits, lanes: Sequence[LaneInfo]) -> None:
    """Raises INVALID naming the field."""
    for name in ("request_id", "tenant", "lane"):
        if len(getattr(job, name)) > limits.max_name_chars:
            raise invalid(name, f"at most {limits.max_name_chars} characters")
    if not job.prompt_ids:
        _check_text(job, limits)
    _check_lane(job, lanes)


def _check_text(job: Job, limits: Limits) -> None:
    if job.prompt is None and not job.turns:
        raise invalid("messages", "must hold at least one message")
    texts = [job.prompt] if job.prompt is not None else [turn.content for turn in job.turns]
    if not any(texts):
        raise invalid(job.input_field, "must not be empty")
    if sum(map(len, texts)) > limits.max_prompt_chars:
        raise invalid(job.input_field, f"at most {limits.max_prompt_chars} characters")


def _check_lane(job: Job, lanes: Sequence[LaneInfo]) -> None:
    lane = next((lane for lane in lanes if job.lane in ("", lane.name)), None)
    if lane is None:
        known = ", ".join(lane.name for lane in lanes)
        raise invalid("lane", f"must be one of {known}, or left out for the first")
    if not _LOWEST <= job.priority <= _HIGHEST:
        raise invalid("priority", f"must lie between {_LOWEST} and {_HIGHEST}")
    if job.priority and not lane.priorities:
        # Taken in silence it would be a promise not kept.
        raise invalid("priority", f"lane {lane.name} does not order by priority; leave it out")
