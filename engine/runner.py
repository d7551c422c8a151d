"""Plans to logits: one forward pass over a packed row of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from engine import batch
from engine.attention import StepContext
from engine.core.plan import Plan
from engine.models import Model
from engine.paged import KVPool, KVShape


class Runner:
    """A model and the cache its blocks live in."""

    def __init__(self, model: Model, shape: KVShape) -> None:
        self.model = model
        self.shape = shape
        self._pool = KVPool(shape, model.dtype, model.device)

    @torch.inference_mode()
    def run(
        self, plan: Plan, tokens: Mapping[str, Sequence[int]]
    ) -> tuple[tuple[str, ...], torch.Tensor]:
        """Run ``plan``; the requests that sample and their logits ``[requests, vocabulary]``.

        ``tokens[id]`` is prompt + output of each request of the plan.
        """
        work = batch.build(plan, tokens, self.shape, self.model.device)
        # Prompt chunks that sample nothing still need one row: 0 would mean all of them.
        rows = work.sampled_rows if work.sampled else work.token_ids.new_zeros(1)
        logits = self.model.forward(
            work.token_ids, work.positions, rows, StepContext(self._pool, work)
        )
        return work.sampled, logits[: len(work.sampled)]

    @torch.inference_mode()
    def wipe(self, blocks: Iterable[int]) -> None:
        """Zero the blocks of a request whose numbers went wrong, before somebody else has them."""
        self._pool.wipe(torch.tensor(sorted(set(blocks)), device=self.model.device))
