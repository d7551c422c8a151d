"""The labelling run: what is missing is asked for, many at once, and journalled as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ranker.types import FinishReason
from training.label.answer import Answer, Label
from training.label.client import PromptRefused
from training.label.journal import Journal
from training.label.prompts import Prompt
from training.label.refusals import Refusals
from training.label.sampling import Sampling

#: Of a prompt that is refused.
_NONE = Answer(0, 0, FinishReason.ERROR)


class Endpoint(Protocol):
    """What of :class:`~training.label.client.Client` a run needs."""

    async def ask(self, prompt: str, sampling: Sampling, seed: int | None) -> Answer: ...


def missing(
    prompts: Sequence[Prompt], draws: int, labels: Sequence[Label]
) -> list[tuple[Prompt, int]]:
    """Draws that ``labels`` lack: the first of every prompt, then the second, and so on. A prompt
    that was refused once is not asked again. Raises ``ValueError`` when ``draws`` is below 1."""
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    there = {(label.key, label.draw) for label in labels}
    refused = {label.key for label in labels if label.refused}
    return [
        (prompt, draw)
        for draw in range(draws)
        for prompt in prompts
        if (prompt.key, draw) not in there and prompt.key not in refused
    ]


async def run(
    wanted: Sequence[tuple[Prompt, int]],
    sampling: Sampling,
    endpoint: Endpoint,
    journal: Journal,
    *,
    concurrency: int = 16,
    told: Callable[[Label], None] = lambda label: None,
    over: Callable[[], bool] = lambda: False,
) -> frozenset[str]:
    """Ask for ``wanted``, ``concurrency`` at a time, and journal each answer as it comes.

    A prompt that is refused is not asked for its other draws. Its refusal is journalled once an
    answer came after it, so that a run which is refused altogether marks no prompt; keys of those
    that none came after are returned, and the next run asks them again. ``told`` hears of each of
    ``wanted``, passed over or not.

    Once ``over`` is true nothing more is asked, and what is in flight is waited for: the answers
    that are missing when a run is cut are the long ones, so a run that was cut has too few of them.
    Raises ``EndpointFailed`` when the endpoint fails or refuses eight prompts in a row; what was
    answered until then is in the journal.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, got {concurrency}")
    work = iter(wanted)
    refusals = Refusals()

    async def worker() -> None:
        for prompt, draw in work:
            if over():
                return
            seed = sampling.seed_of(prompt.key, draw)
            if prompt.key in refusals:
                told(_label(prompt, draw, seed, _NONE))
                continue
            try:
                answer = await endpoint.ask(prompt.text, sampling, seed)
            except PromptRefused as error:
                label = _label(prompt, draw, seed, _NONE)
                refusals.add(label, error)
            else:
                label = _label(prompt, draw, seed, answer)
                # The answer first: killed in between, a prompt is refused again, and no more.
                for each in (label, *refusals.settled()):
                    journal.append(each)
            told(label)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(wanted))):
                group.create_task(worker())
    except ExceptionGroup as failures:
        # One worker's failure ends all; the first says why.
        raise failures.exceptions[0] from None
    return refusals.open


def _label(prompt: Prompt, draw: int, seed: int | None, answer: Answer) -> Label:
    return Label(
        prompt.key, prompt.id, prompt.conversation, prompt.split, draw, seed,
        answer.prompt_tokens, answer.output_tokens, answer.finish_reason,
    )  # fmt: skip
