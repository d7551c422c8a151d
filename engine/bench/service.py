"""What requests got of an engine within a window of time."""

from __future__ import annotations

import numpy as np

from engine.timings import Timings


def output_within(timings: Timings, start: float, end: float) -> float:
    """Output tokens, as if they came evenly from a request's first token to its last."""
    whole = np.maximum(timings.finished - timings.first_token, 1e-9)
    within = np.minimum(timings.finished, end) - np.maximum(timings.first_token, start)
    return float((timings.output_tokens * np.clip(within / whole, 0.0, 1.0)).sum())


def prompts_within(timings: Timings, start: float, end: float) -> int:
    """Prompt tokens; a prompt counts when its first token comes."""
    began = (timings.first_token >= start) & (timings.first_token < end)
    return int(timings.prompt_tokens[began].sum())


def finished_within(timings: Timings, start: float, end: float) -> Timings:
    """Requests that ended in it."""
    return timings.select((timings.finished >= start) & (timings.finished < end))
