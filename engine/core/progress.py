"""What a step that was run leaves a request with: tokens, blocks to be found, another place."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from engine.core.plan import Plan, Step
from engine.core.request import Request
from engine.core.state import State
from ranker.types import FinishReason


def advance(state: State, request: Request, step: Step, accepted: int) -> None:
    """``step`` was computed, and ``accepted`` of its drafts stand."""
    before = request.computed_tokens
    if step.drafts:
        request.computed_tokens = step.start + 1 + accepted
        request.output_tokens += 1 + accepted
    else:
        request.computed_tokens = step.start + step.tokens
        request.output_tokens += step.samples
    found = request.block_hashes and _recorded(state, request, before)
    if found and request.id in state.prefilling:
        state.gate.changed()  # a request that waits for memory may find its prompt now


def coast(state: State, request: Request, steps: int) -> None:
    """It decoded in ``steps`` steps at once, and its key stands."""
    before = request.computed_tokens
    request.output_tokens += steps
    request.computed_tokens = after = before + steps
    if len(request.block_table) * state.config.block_size < after:
        state.memory.grow(request, after)
    if request.block_hashes:
        _recorded(state, request, before)
    if request.total_tokens > state.config.capacity:
        state.full[request.id] = request


def swapped_in(
    state: State, requests: Iterable[Request], finished: Mapping[str, FinishReason]
) -> None:
    """A step was run with which some of these came back from the host: their blocks are there."""
    for request in requests:
        if state.holds(request) and finished.get(request.id) is not FinishReason.ERROR:
            state.memory.record(request)
    state.gate.changed()


def review(state: State, request: Request) -> None:
    """A request that goes on: does it prefill, is it due for another key, is memory too small?"""
    name = request.id
    if name in state.prefilling and not request.prefills:
        del state.prefilling[name]
    if state.rekey_at and request.output_tokens >= state.rekey_at.get(name, math.inf):
        state.rekey(request)
    if request.total_tokens > state.config.capacity:
        state.full[name] = request


def _recorded(state: State, request: Request, before: int) -> bool:
    """Let others find blocks filled since ``before`` tokens were computed; whether any were."""
    size = state.config.block_size
    if before // size == request.computed_tokens // size:
        return False
    state.memory.record(request)
    return True


def check_drafts(
    plan: Plan, accepted: Mapping[str, int], drafted: Mapping[str, int] | None
) -> None:
    """Raise ``ValueError`` when more drafts were proposed than ``plan`` has, or more accepted than
    proposed; ``drafted`` ``None``: all were proposed."""
    planned = {step.request_id: step.drafts for step in plan.steps if step.drafts}
    proposed = planned if drafted is None else drafted
    for what, counts, limits in (
        ("accepted", accepted, proposed),
        ("drafted", proposed, planned),
    ):
        for request_id, count in counts.items():
            if not 0 <= count <= limits.get(request_id, 0):
                raise ValueError(
                    f"{what} says {count} drafts of {request_id!r}, of which plan {plan.number} "
                    f"has {limits.get(request_id, 0)}"
                )
