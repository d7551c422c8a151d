"""The labelling run: what is missing is asked for, many at once, and journalled as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ranker.types import FinishReason
from training.label.answer import Answer, Label
from training.label.client import EndpointFailed, PromptRefused
from training.label.journal import Journal
from training.label.prompts import Prompt
from training.label.sampling import Sampling

#: So many refused prompts in a row are no accident of theirs.
_REFUSED = 8


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
) -> None:
    """Ask for ``wanted``, ``concurrency`` at a time, and journal each answer as it comes.

    Once ``over`` is true nothing more is asked, and what is in flight is waited for: the answers
    that are missing when a run is cut are the long ones, so a run that was cut has too few of them.
    Raises ``EndpointFailed`` when the endpoint fails or refuses prompt after prompt; what was
    answered until then is in the journal.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, got {concurrency}")
    work = iter(wanted)
    refusals = _Streak()

    async def worker() -> None:
        for prompt, draw in work:
            if over():
                return
            seed = sampling.seed_of(prompt.key, draw)
            try:
                answer = await endpoint.ask(prompt.text, sampling, seed)
            except PromptRefused as error:
                refusals.add(error)
                answer = Answer(0, 0, FinishReason.ERROR)
            else:
                refusals.end()
            label = Label(
                prompt.key, prompt.id, prompt.conversation, prompt.split, draw, seed,
                answer.prompt_tokens, answer.output_tokens, answer.finish_reason,
            )  # fmt: skip
            journal.append(label)
            told(label)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(wanted))):
                group.create_task(worker())
    except ExceptionGroup as failures:
        # One worker's failure ends all; the first says why.
        raise failures.exceptions[0] from None


class _Streak:
    """Refusals since the last answer."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, error: PromptRefused) -> None:
        """Raises ``EndpointFailed`` when there were too many."""
        self._count += 1
        if self._count >= _REFUSED:
            raise EndpointFailed(f"{self._count} prompts in a row were refused, the last: {error}")

    def end(self) -> None:
        self._count = 0
