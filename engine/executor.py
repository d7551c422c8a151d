"""Runs plans on a torch model: who is being generated, with which tokens, and what comes next."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from functools import partial
from itertools import chain
from typing import Protocol

import torch

from engine.core.plan import Plan
from engine.drafting.drafter import Drafter
from engine.drafting.proposals import Proposals
from engine.drafting.verify import Verdict, verify
from engine.runner import Runner
from engine.sampling import SamplingParams
from engine.scoring import run_scored
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

    def prompt(self, request_id: str) -> tuple[Token, ...]:
        """The tokens of a prompt that was computed, with the log probabilities that
        ``prompt_logprobs`` asked for."""
        ...

    def run(self, plan: Plan) -> Mapping[str, tuple[Token, ...]]:
        """Move the blocks that a plan moves and run it; the tokens of each request that sampled:
        one, and as many more as drafts were accepted.

        A request that should have sampled and is absent failed alone, and must end. Raises when
        the step failed: then no request of it got a token, and ``MovesFailed`` when nothing that
        is computed can be used any more.
        """
        ...

    @property
    def drafted(self) -> Mapping[str, int]:
        """How many drafts the last :meth:`run` verified, of each request that had some."""
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
    """Executor over a :class:`Runner`. One thread at a time, but for :meth:`add`.

    ``drafter`` proposes the drafts that a plan has room for; without one there are none.
    """

    def __init__(self, runner: Runner, drafter: Drafter | None = None) -> None:
        self._runner = runner
        model = runner.model
        self._proposals = Proposals(drafter, model.config.vocab_size, model.context_length)
        self._drafts: dict[str, list[int]] = {}
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
        sampling.check_vocabulary(vocabulary)
        sequence = Sequence.start(request_id, prompt_ids, sampling, self._runner.model.eos)
        self._sequences[request_id] = sequence
        self._tokens[request_id] = sequence.tokens

    def remove(self, request_id: str) -> None:
        self._sequences.pop(request_id, None)
        self._tokens.pop(request_id, None)
        self._proposals.forget(request_id)

    def sequence(self, request_id: str) -> Sequence:
        return self._sequences[request_id]

    def prompt(self, request_id: str) -> tuple[Token, ...]:
        return self._sequences[request_id].scored_prompt

    @property
    def drafted(self) -> Mapping[str, int]:
        return {name: len(drafts) for name, drafts in self._drafts.items()}

    @torch.inference_mode()
    def run(self, plan: Plan) -> Mapping[str, tuple[Token, ...]]:
        self._drafts = {}
        try:
            self._runner.move(plan)
        except Exception as error:
            raise MovesFailed(f"blocks could not be moved ({type(error).__name__})") from error
        plan, self._drafts = self._proposals.fill(plan, self._sequences)
        lost = self._tainted.lost(plan)
        if not plan.steps:
            self._runner.wait()
            return {}
        run = partial(self._runner.run, tokens=self._ahead(self._drafts))
        requests, logits = run_scored(plan, self._sequences, run)
        if not requests:
            return {}
        verdict = verify(requests, logits, self._sequences, self._drafts)
        if self._drafts:
            self._undo(plan, verdict)
        for name in verdict.failed:
            log.error("request %s ends: the model's logits are not finite", name)
        for name in lost & verdict.tokens.keys():
            log.error("request %s ends: what it shared with another was lost", name)
            del verdict.tokens[name]
        ends = set(requests) - verdict.tokens.keys()
        if ends:
            blocks = (s.block_table for s in plan.steps if s.request_id in ends)
            self._tainted.add(self._runner.wipe(chain.from_iterable(blocks)))
        return verdict.tokens

    def _ahead(self, drafts: Mapping[str, list[int]]) -> Mapping[str, Seq[int]]:
        """Tokens of all requests, with the drafts behind."""
        if not drafts:
            return self._tokens
        return self._tokens | {name: self._tokens[name] + more for name, more in drafts.items()}

    def _undo(self, plan: Plan, verdict: Verdict) -> None:
        """Clean up after drafts that made numbers which are not finite: those reach their request
        through masked slots, in this step or later. With other drafts, of a token that is known to
        do no harm, they are overwritten."""
        dirty = verdict.dirty | (self._drafts.keys() & verdict.failed)
        if not dirty:
            return
        steps = tuple(step for step in plan.steps if step.request_id in dirty)
        tokens = {}
        for step in steps:
            known, end = self._tokens[step.request_id], step.start + step.tokens
            stands = step.start + max(1, len(verdict.tokens.get(step.request_id, ())))
            tokens[step.request_id] = known[:stands] + [known[0]] * (end - stands)
        names, anew = self._runner.run(Plan(plan.number, steps), tokens)
        again = [row for row, name in enumerate(names) if name in verdict.failed]
        if again:
            second = verify([names[row] for row in again], anew[again], self._sequences, {})
            verdict.tokens |= second.tokens
            verdict.failed = (verdict.failed - set(names)) | second.failed
