"""Whether an engine guesses tokens ahead, and how. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Method(StrEnum):
    """Who guesses the tokens that follow."""

    OFF = "off"
    NGRAM = "ngram"  #: what followed the last tokens when they were said before
    MODEL = "model"  #: a smaller model of the same tokenizer


@dataclass(frozen=True, slots=True)
class SpeculationSetup:
    """``draft_model``: a folder or hub id, for ``model`` alone. ``max_drafts``: tokens guessed per
    request and step at most.

    Raises ``ValueError`` naming the field and the fix.
    """

    method: Method = Method.OFF
    draft_model: str = ""
    max_drafts: int = 8

    def __post_init__(self) -> None:
        if self.method is Method.MODEL and not self.draft_model:
            raise ValueError("speculate model needs draft_model: a folder or an id on the hub")
        if self.draft_model and self.method is not Method.MODEL:
            raise ValueError("draft_model is for speculate model alone")
        if not 1 <= self.max_drafts <= 32:
            raise ValueError(f"max_drafts must lie in [1, 32], got {self.max_drafts}")
