"""Plans to logits: one forward pass over a packed row of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from engine.attention.interface import StepContext
from engine.attention.pool import KVShape
from engine.core.plan import Plan
from engine.cuda import graphs
from engine.cuda.buckets import Buckets
from engine.host import HostPool
from engine.models import Model
from engine.placed import placed


class Runner:
    """A model and the cache its blocks live in; ``host_blocks`` is how many can be swapped out.

    ``buckets``: the decode steps that become CUDA graphs, where the model and its device have
    them; ``None``: none do.
    """

    def __init__(
        self,
        model: Model,
        shape: KVShape,
        host_blocks: int = 0,
        buckets: Buckets | None = None,
    ) -> None:
        self.model = model
        self.shape = shape
        self._forward, self._attention = model.forward, model.attention
        self._pool = model.attention.pool(shape, model.dtype, model.device)
        if buckets is not None:
            self._forward, self._attention = graphs.recorded(
                model.forward, model.attention, self._pool, buckets
            )
        self._host = HostPool(self._pool, host_blocks)

    @torch.inference_mode()
    def move(self, plan: Plan) -> None:
        """Copy the blocks that ``plan`` moves, in its order: out, in, then on the device.

        On a GPU the copies are queued ahead of the step's own work; :meth:`wait` waits for them.
        """
        if plan.swap_out:
            self._host.take_in(plan.swap_out)
        if plan.swap_in:
            self._host.give_back(plan.swap_in)
        if plan.copies:
            sources, targets = zip(*plan.copies, strict=True)
            self._pool.copy(self._tensor(sources), self._tensor(targets))

    def wait(self) -> None:
        """Until all copies and steps that were begun are over."""
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)

    @torch.inference_mode()
    def run(
        self, plan: Plan, tokens: Mapping[str, Sequence[int]]
    ) -> tuple[tuple[str, ...], torch.Tensor]:
        """Run ``plan``; the requests that sample and their logits ``[rows, vocabulary]``.

        ``tokens[id]`` is prompt + output + drafts of each request of the plan; one with n drafts
        is named 1 + n times, for the logits behind its last token and behind each draft.
        """
        work = self._attention.batch(plan, tokens, self.shape, self.model.device)
        # Prompt chunks that sample nothing still need one row: 0 would mean all of them.
        rows = work.sampled_rows if work.sampled else work.token_ids.new_zeros(1)
        logits = self._forward(
            work.token_ids, work.positions, rows, StepContext(self._pool, work, self._attention)
        )
        return work.sampled, logits[: len(work.sampled)]

    @torch.inference_mode()
    def wipe(self, blocks: Iterable[int]) -> list[int]:
        """Zero those of ``blocks`` that hold numbers which are not finite; which ones those were.

        The others may be shared with requests that are well.
        """
        broken = self._pool.broken(self._tensor(sorted(set(blocks))))
        self._pool.wipe(broken)
        found: list[int] = broken.tolist()
        return found

    def _tensor(self, blocks: Sequence[int]) -> torch.Tensor:
        return placed(blocks, self.model.device, torch.int64)
