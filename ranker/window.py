"""How much of a prompt a ranker reads: its beginning and its end, so that cost is bounded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """The first ``head`` and the last ``tail`` characters of a prompt.

    Instructions stand at the beginning or at the end; a pasted document stands in the middle.
    Raises ``ValueError`` when either is no whole number, ``head`` is not positive or ``tail`` is
    negative.
    """

    head: int = 1500
    tail: int = 500

    def __post_init__(self) -> None:
        if not (isinstance(self.head, int) and isinstance(self.tail, int)):
            raise ValueError("window.head and window.tail must be whole numbers of characters")
        if self.head < 1:
            raise ValueError(f"window.head must be at least 1 character, got {self.head}")
        if self.tail < 0:
            raise ValueError(f"window.tail must be at least 0 characters, got {self.tail}")

    def cut(self, prompt: str) -> str:
        """``prompt`` itself when it fits, else its two ends with a line break between them."""
        if len(prompt) <= self.head + self.tail:
            return prompt
        end = prompt[-self.tail :] if self.tail else ""
        return f"{prompt[: self.head]}\n{end}"
