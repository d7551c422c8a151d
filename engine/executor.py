"""Runs plans on a torch model: who is being generated, with which tokens, and what comes next."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Protocol

import torch

from engine.core.plan import Plan
from engine.runner import Runner
from engine.sampler import sample
from engine.sampling import SamplingParams
from engine.sequence import Sequence
from engine.taint import Tainted
from engine.token import Token

log = logging.getLogger(__name__)


class MovesFailed(RuntimeError):
    """Blocks were lost on their way: what requests and the prefix cache hold is not to be trusted
    any more."""


class Executor(Protocol):
    """What the loop needs of whatever runs plans."""

    def add(self, request_id: str, prompt_ids: Seq[int], sampling: SamplingParams) -> None:
        """Take a request in, perhaps during :meth:`run` of a plan that doesn't name it.

        Raises ``ValueError`` naming the field that is wrong.
        """
        ...

    def remove(self, request_id: str) -> None:
        """Forget a request; unknown ids are ignored."""
        ...

    def run(self, plan: Plan) -> Mapping[str, tuple[Token, ...]]:
        """Move the blocks that a plan moves and run it; the tokens of each request that sampled:
        one, and as many more as drafts were accepted.

        A request that should have sampled and is absent failed alone, and must end. Raises when
        the step failed: then no request of it got a token, and ``MovesFailed`` when nothing that
        is computed can be used any more.
        """
        ...


def attempt(executor: Executor, plan: Plan) -> tuple[Mapping[str, tuple[Token, ...]], bool]:
    """Run a plan; its tokens, and whether the step failed. Raises ``MovesFailed`` alone."""
    try:
        return executor.run(plan), False
    except MovesFailed:
        raise
    except Exception as error:
        # The type alone: the message of a foreign error might quote an input.
        log.error(
            "step %d failed (%s); its %d requests end with an error",
            plan.number,
            type(error).__name__,
            len(plan.steps),
        )
        return {}, True


class TorchExecutor:
    """Executor over a :class:`Runner`. One thread at a time, but for :meth:`add`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._sequences: dict[str, Sequence] = {}
        self._tokens: dict[str, list[int]] = {}
        self._tainted = Tainted(runner.shape.block_size)

    def add(self, request_id: str, prompt_ids: Seq[int], sampling: SamplingParams) -> None:
        if request_id in self._sequences:
            raise ValueError(f"request_id {request_id!r} is in use")
        vocabulary = self._runner.model.config.vocab_size
        if not prompt_ids:
            raise ValueError("prompt must hold at least one token")
        if not all(0 <= token < vocabulary for token in prompt_ids):
            raise ValueError(f"prompt holds tokens outside the vocabulary of {vocabulary}")
        sequence = Sequence.start(request_id, prompt_ids, sampling)
        self._sequences[request_id] = sequence
        self._tokens[request_id] = sequence.tokens

    def remove(self, request_id: str) -> None:
        self._sequences.pop(request_id, None)
        self._tokens.pop(request_id, None)

    def sequence(self, request_id: str) -> Sequence:
        return self._sequences[request_id]

    @torch.inference_mode()
    def run(self, plan: Plan) -> Mapping[str, tuple[Token, ...]]:
        try:
            self._runner.move(plan)
        except Exception as error:
            raise MovesFailed(f"blocks could not be moved ({type(error).__name__})") from error
        lost = self._tainted.lost(plan)
        if not plan.steps:
            self._runner.wait()
            return {}
        requests, logits = self._runner.run(plan, self._tokens)
        if not requests:
            return {}
        sequences = [self._sequences[request] for request in requests]
        tokens: dict[str, tuple[Token, ...]] = {}
        for sequence, token in zip(sequences, sample(logits, sequences), strict=True):
            if token is None:
                log.error("request %s ends: the model's logits are not finite", sequence.id)
            elif sequence.id in lost:
                log.error("request %s ends: what it shared with another was lost", sequence.id)
            else:
                sequence.append(token.id)
                tokens[sequence.id] = (token,)
        if len(tokens) < len(requests):
            ends = [step for step in plan.steps if step.samples and step.request_id not in tokens]
            blocks = self._runner.wipe(block for step in ends for block in step.block_table)
            self._tainted.add(blocks)
        return tokens
