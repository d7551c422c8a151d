"""Drafts as an operator wants them: whose guesses, how many, and what they cost on this machine."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine import cache_size
from engine.core.speculation import SpeculationConfig
from engine.drafting.drafter import Drafter
from engine.drafting.measure import blocks_needed, draft_seconds, verify_steps
from engine.drafting.model import DraftModelConfig, ModelDrafter, check_same_tokens
from engine.drafting.ngram import NgramDrafter
from engine.drafting.speculative import Speculative
from engine.models import Model
from engine.runner import Runner
from serving import engine_setup
from serving.engine_setup import EngineSetup
from serving.speculation_setup import Method

log = logging.getLogger(__name__)

#: Keys and values of a draft model.
_DRAFT_GIB = 0.5


def prepare(
    setup: EngineSetup, model: Model, cache: Path, clock: Callable[[], float] = time.monotonic
) -> Speculative | None:
    """What ``setup.speculation`` asks for, with costs measured in a second or two; ``None``: none.

    Raises ``ValueError`` when a draft model does not fit ``model``.
    """
    chosen = setup.speculation
    if chosen.method is Method.OFF:
        return None
    began = time.monotonic()
    config = SpeculationConfig(chosen.max_drafts)
    drafter: Drafter = NgramDrafter()
    if chosen.method is Method.MODEL:
        drafter = _draft_model(model, engine_setup.load(setup, cache, draft=True), setup)
        seconds = draft_seconds(drafter, max(1, setup.max_num_seqs // 4), clock)
        config = replace(config, draft_seconds=seconds)
    most = min(setup.max_num_batched_tokens, setup.max_num_seqs * (1 + chosen.max_drafts))
    config = replace(config, steps=_steps(model, most, clock))
    log.info(
        "speculation by %s, measured in %.1f s: a draft pass takes %.2f ms; steps: %s",
        chosen.method,
        time.monotonic() - began,
        config.draft_seconds * 1e3,
        ", ".join(f"{size} tokens {seconds * 1e3:.1f} ms" for size, seconds in config.steps),
    )
    return Speculative(config, drafter)


def _steps(model: Model, most: int, clock: Callable[[], float]) -> tuple[tuple[int, float], ...]:
    size = cache_size.block_size(model)
    runner = Runner(model, model.kv_shape(blocks_needed(most, size), size))
    return verify_steps(runner, most, clock)


def _draft_model(model: Model, draft: Model, setup: EngineSetup) -> Drafter:
    check_same_tokens(model, draft)
    size = cache_size.block_size(draft)
    given = int(_DRAFT_GIB * 2**30 // draft.kv_shape(1, size).nbytes(draft.dtype))
    most = setup.max_num_seqs * math.ceil(draft.context_length / size)
    return ModelDrafter(draft, DraftModelConfig(max(1, min(given, most)), size))
