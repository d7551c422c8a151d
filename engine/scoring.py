"""Log probabilities of the prompts' own tokens, for requests that ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

import torch

from engine.core.plan import Plan, Step
from engine.sampler_logprobs import report
from engine.sequence import Sequence


def _scores(step: Step, sequence: Sequence) -> bool:
    """Whether ``step`` computes rows of the prompt that are to be scored."""
    asked = sequence.sampling.prompt_logprobs is not None
    return asked and not step.drafts and step.start < sequence.prompt_tokens


def widened(plan: Plan, sequences: Mapping[str, Sequence]) -> Plan:
    """``plan`` with the logits of every row that is to be scored, as drafts have them."""
    if not any(_scores(step, sequences[step.request_id]) for step in plan.steps):
        return plan
    steps = (
        step._replace(samples=True, drafts=step.tokens - 1)
        if _scores(step, sequences[step.request_id])
        else step
        for step in plan.steps
    )
    return replace(plan, steps=tuple(steps))


def score(
    plan: Plan, sequences: Mapping[str, Sequence], requests: Seq[str], logits: torch.Tensor
) -> tuple[tuple[str, ...], torch.Tensor]:
    """Note the prompt's log probabilities in the sequences; what is left to sample from.

    ``requests`` and ``logits`` are what :func:`widened` ``plan`` gave: the rows of a request stand
    together, in order.
    """
    scored = {s.request_id: s for s in plan.steps if _scores(s, sequences[s.request_id])}
    if not scored:
        return tuple(requests), logits
    left: list[int] = []
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(requests):
        if name in scored:
            rows.setdefault(name, []).append(row)
        else:
            left.append(row)
    for name, mine in rows.items():
        step, sequence = scored[name], sequences[name]
        _note(sequence, step.start, logits[mine])
        if step.samples:
            left.append(mine[-1])
    left.sort()
    return tuple(requests[row] for row in left), logits[left]


def _note(sequence: Sequence, start: int, logits: torch.Tensor) -> None:
    """``logits[i]`` say what comes behind position ``start + i``."""
    ids = sequence.tokens[start + 1 : min(start + 1 + len(logits), sequence.prompt_tokens)]
    top = sequence.sampling.prompt_logprobs or 0
    tokens = report(logits[: len(ids)].float(), ids, [top] * len(ids)) if ids else []
    for position, token in enumerate(tokens, start=start + 1):
        sequence.prompt_scores[position] = token
