"""One realised answer: numbers and ids, never text."""

from __future__ import annotations

from dataclasses import dataclass

from ranker.types import FinishReason
from training.sources import Example


@dataclass(frozen=True, slots=True)
class Answer:
    """How long an answer became. ``finish_reason`` other than ``stop``: at least that long."""

    prompt_tokens: int
    output_tokens: int
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True)
class Label:
    """One draw of one prompt. ``key``: of :class:`~training.label.prompts.Prompt`, as are ``id``,
    ``conversation`` and ``split``. ``finish_reason`` ``error``: the endpoint refuses this prompt.
    """

    key: str
    id: str
    conversation: str
    split: str
    draw: int
    seed: int | None
    prompt_tokens: int
    output_tokens: int
    finish_reason: FinishReason

    @property
    def refused(self) -> bool:
        return self.finish_reason is FinishReason.ERROR

    def example(self, model: str) -> Example:
        """The length as an example whose prompt is the key: equal for draws of one prompt."""
        return Example(
            prompt=self.key,
            output_tokens=self.output_tokens,
            finish_reason=self.finish_reason,
            model=model,
            id=f"{self.id}/{self.draw}",
            split=self.split,
            prompt_tokens=self.prompt_tokens,
            conversation=self.conversation,
        )
