"""Requests as a study draws them: read by any number of runs, changed by none."""

from __future__ import annotations

from engine.core.config import SchedulerConfig
from engine.core.request import Request


def fresh(template: Request) -> Request:
    """A request of its own for one run. By position: a million are made so."""
    return Request(
        template.id,
        template.arrival,
        template.prompt_tokens,
        template.forecast,
        template.true_tokens,
        template.tenant,
        template.lane,
        template.priority,
        template.block_hashes,
    )


def check_length(request: Request, config: SchedulerConfig) -> None:
    """Raise ``ValueError`` unless its ``true_tokens`` are known and fit ``config``."""
    if request.true_tokens is None or request.true_tokens < 1:
        raise ValueError(
            f"request {request.id!r} needs true_tokens of at least 1, got {request.true_tokens}"
        )
    if request.prompt_tokens + request.true_tokens > config.capacity:
        raise ValueError(
            f"request {request.id!r} holds {request.prompt_tokens} + {request.true_tokens} tokens, "
            f"but the KV pool {config.capacity}; raise num_blocks"
        )
