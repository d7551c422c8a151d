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
from engine.drafting.measure import EACH, blocks_needed, draft_seconds, verify_steps
from engine.drafting.model import DraftModelConfig, ModelDrafter, check_same_tokens
from engine.drafting.ngram import NgramDrafter
from engine.drafting.speculative import Speculative
from engine.models import Model
from engine.runner import Runner
from serving import engine_load, engine_setup
from serving.engine_setup import EngineSetup
from serving.speculation_setup import Method

log = logging.getLogger(__name__)

#: Keys and values of a draft model.
_DRAFT_GIB = 0.5


def load_draft(setup: EngineSetup, cache: Path) -> Model | None:
    """The draft model, where ``setup.speculation`` asks for one. Raises ``ValueError``."""
    if setup.speculation.method is not Method.MODEL:
        return None
    return engine_load.load(setup, cache, draft=True)


def drafter(setup: EngineSetup, model: Model, draft: Model | None) -> Drafter:
    """Whose guesses ``model`` verifies. Raises ``ValueError`` when ``draft`` does not fit it."""
    if draft is None:
        return NgramDrafter()
    check_same_tokens(model, draft)
    size = cache_size.block_size(draft)
    given = int(_DRAFT_GIB * 2**30 // draft.kv_shape(1, size).nbytes(draft.dtype))
    most = setup.max_num_seqs * math.ceil(draft.context_length / size)
    config = DraftModelConfig(max(1, min(given, most)), size)
    buckets = None
    if setup.cuda_graphs:
        buckets = cache_size.buckets(draft, setup.max_num_seqs, size, config.num_blocks)
    return ModelDrafter(draft, config, buckets)


def prepare(
    setup: EngineSetup,
    model: Model,
    draft: Model | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Speculative | None:
    """What ``setup.speculation`` asks for, with costs measured in a second or two; ``None``: none.

    Raises ``ValueError`` when ``draft`` does not fit ``model``.
    """
    chosen = setup.speculation
    if chosen.method is Method.OFF:
        return None
    began = time.monotonic()
    setup = engine_setup.fitted(setup, model)
    config, guesses = SpeculationConfig(chosen.max_drafts), drafter(setup, model, draft)
    if draft is not None:
        seconds = draft_seconds(guesses, max(1, setup.max_num_seqs // 4), clock)
        config = replace(config, draft_seconds=seconds)
    most = min(setup.max_num_batched_tokens, setup.max_num_seqs * (1 + chosen.max_drafts))
    config = replace(config, steps=_steps(setup, model, most, clock))
    log.info(
        "speculation by %s, measured in %.1f s: a draft pass takes %.2f ms; steps: %s",
        chosen.method,
        time.monotonic() - began,
        config.draft_seconds * 1e3,
        ", ".join(f"{size} tokens {seconds * 1e3:.1f} ms" for size, seconds in config.steps),
    )
    return Speculative(config, guesses)


def _steps(
    setup: EngineSetup, model: Model, most: int, clock: Callable[[], float]
) -> tuple[tuple[int, float], ...]:
    size = cache_size.block_size(model)
    needed = blocks_needed(most, size)
    buckets = None
    if setup.cuda_graphs:
        # As the engine will have them: a graph costs a fraction of its steps.
        drafts = max(EACH - 1, setup.speculation.max_drafts)
        buckets = cache_size.buckets(model, setup.max_num_seqs, size, needed, drafts)
    runner = Runner(model, model.kv_shape(needed, size), buckets=buckets)
    return verify_steps(runner, most, clock)
