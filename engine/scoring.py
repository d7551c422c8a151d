"""Log probabilities of the prompts' own tokens, for requests that ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

import torch

from engine.core.plan import Plan, Step
from engine.sampler_logprobs import report
from engine.sequence import Sequence

#: Rows that are scored at once, each as long as the vocabulary: those of a long prompt together
#: could fill the memory, and the step would fail for everyone in it.
_ROWS = 256

#: What was run of a plan: the requests that sample, by row, and their logits.
Rows = tuple[tuple[str, ...], torch.Tensor]


def run_scored(plan: Plan, sequences: Mapping[str, Sequence], run: Callable[[Plan], Rows]) -> Rows:
    """``run`` ``plan``, in several passes if it scores long prompts, and note what their tokens'
    log probabilities are; what is left to sample from."""
    before, rest = _split(plan, sequences)
    for each in before:
        _score(each, sequences, *run(_widened(each, sequences)))
    return _score(rest, sequences, *run(_widened(rest, sequences)))


def _split(plan: Plan, sequences: Mapping[str, Sequence]) -> tuple[list[Plan], Plan]:
    """Passes that come first, and the end of ``plan``, with at most ``_ROWS`` rows to score in
    each; in the end one of each request at least."""
    before: list[Plan] = []
    steps, room = [], _ROWS
    for step in plan.steps:
        if _scores(step, sequences[step.request_id]):
            last = max(1, min(step.tokens, room))
            room = max(0, room - last)
            end = step.start + step.tokens - last
            for start in range(step.start, end, _ROWS):
                count = min(_ROWS, end - start)
                part = step._replace(start=start, tokens=count, samples=False)
                before.append(replace(plan, steps=(part,)))
            step = step._replace(start=end, tokens=last)
        steps.append(step)
    return before, replace(plan, steps=tuple(steps)) if before else plan


def _scores(step: Step, sequence: Sequence) -> bool:
    """Whether ``step`` computes rows of the prompt that are to be scored."""
    asked = sequence.sampling.prompt_logprobs is not None
    return asked and not step.drafts and step.start < sequence.prompt_tokens


def _widened(plan: Plan, sequences: Mapping[str, Sequence]) -> Plan:
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


def _score(
    plan: Plan, sequences: Mapping[str, Sequence], requests: Seq[str], logits: torch.Tensor
) -> Rows:
    """Note the prompt's log probabilities in the sequences; what is left to sample from.

    ``requests`` and ``logits`` are what :func:`_widened` ``plan`` gave: the rows of a request stand
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
