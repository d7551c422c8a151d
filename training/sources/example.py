"""What a ranker is trained and judged on: prompts with realised lengths."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ranker.types import FinishReason
from training.split import SPLITS


@dataclass(frozen=True, slots=True)
class Origin:
    """Where in live traffic a row is from: it arrived at Unix second ``arrival``."""

    arrival: float
    tenant: str = ""
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt and the realised length of one answer by ``model``, in tokens of that model.

    A ``finish_reason`` other than ``stop`` makes ``output_tokens`` a lower bound. Several draws of
    one prompt are several examples with equal prompts and ids of their own. ``conversation``, where
    known, is what the prompt is a turn of. ``weight``, above 0, is how much a training row counts;
    held-out rows count alike. ``origin`` is known of live traffic.
    """

    prompt: str = field(repr=False)
    output_tokens: int
    finish_reason: FinishReason
    model: str
    id: str
    split: str
    prompt_tokens: int = 0
    conversation: str = ""
    weight: float = 1.0
    origin: Origin | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.weight < math.inf:
            raise ValueError(f"example.weight must be above 0 and finite, got {self.weight}")
        if self.output_tokens < 0:
            raise ValueError(f"example.output_tokens must be >= 0, got {self.output_tokens}")
        if self.split not in SPLITS:
            raise ValueError(f"example.split must be one of {', '.join(SPLITS)}")


def digest(examples: Iterable[Example]) -> str:
    """Changes when a prompt, an id, a number or the split of one does; reveals none."""
    sha = hashlib.sha256()
    for e in examples:
        about = (e.id, e.output_tokens, e.finish_reason, e.model, e.split, len(e.prompt), e.prompt)
        sha.update("\0".join(map(str, about)).encode("utf-8", "surrogatepass"))
    return sha.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Data:
    """Examples with the name of where they come from.

    ``leaks`` counts rows that :func:`training.sources.without_leaks` left out, ``skipped`` those
    that say nothing of a length, by reason.
    """

    name: str
    source: str
    examples: tuple[Example, ...]
    leaks: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)

    def split(self, name: str) -> list[Example]:
        """The examples of one split, in order."""
        if name not in SPLITS:
            raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {name!r}")
        return [example for example in self.examples if example.split == name]

    def digest(self, split: str) -> str:
        """:func:`digest` of the examples of one split."""
        return digest(self.split(split))


@dataclass(frozen=True, slots=True)
class Lengths:
    """Realised lengths as vectors: ``tokens`` [rows] and whether each is a lower bound."""

    tokens: NDArray[np.float64]
    censored: NDArray[np.bool_]

    @classmethod
    def of(cls, examples: Iterable[Example]) -> Lengths:
        rows = list(examples)
        return cls(
            np.array([e.output_tokens for e in rows], dtype=np.float64),
            np.array([e.finish_reason.censored for e in rows], dtype=np.bool_),
        )
