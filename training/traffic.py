"""Held-out traffic that differs from what the ranker of first turns was trained on.

Each slice is real chat of the same package, in test and validation buckets only. How much order
is left on each is measured by ``shortfirst evaluate --traffic all``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ranker.types import FinishReason
from training.sharegpt import ShareGpt, Turn
from training.slices import has_code, not_english
from training.sources import Example
from training.split import TEST, VALIDATION


@dataclass(frozen=True, slots=True)
class Slice:
    """``keep`` says which turns belong; ``limit``, where set, cuts answers at that many tokens."""

    what: str
    keep: Callable[[Turn], bool]
    limit: int | None = None


SLICES: dict[str, Slice] = {
    "first-turns": Slice("what opens a conversation, as in training", lambda t: not t.depth),
    "later-turns": Slice("what follows in a conversation", lambda t: t.depth > 0),
    "deep-turns": Slice("40 or more messages into a conversation", lambda t: t.depth >= 40),
    "deep-long": Slice(
        "40 or more messages into a conversation, 100 characters or more",
        lambda t: t.depth >= 40 and len(t.prompt) >= 100,
    ),
    "long-prompts": Slice("prompts of 1,000 characters or more", lambda t: len(t.prompt) >= 1000),
    "code": Slice("prompts with program code", lambda t: has_code(t.prompt)),
    "not-english": Slice(
        "prompts of which 5% or more is outside ASCII", lambda t: not_english(t.prompt)
    ),
    "unlike": Slice(
        "program code, other languages, and long messages deep in a conversation",
        lambda t: (
            has_code(t.prompt) or not_english(t.prompt) or (t.depth >= 40 and len(t.prompt) >= 200)
        ),
    ),
    "limit-64": Slice("first turns under a limit of 64 tokens", lambda t: not t.depth, limit=64),
}
#: The largest loss among slices of 1,000 rows or more; `evaluate --traffic all` shows all.
DEFAULT = "unlike"


def shifted(
    sharegpt: ShareGpt, name: str = DEFAULT, splits: Iterable[str] = (TEST, VALIDATION)
) -> list[Example]:
    """Examples of slice ``name`` in held-out ``splits``, in the order of the file.

    Raises ``ValueError`` for an unknown slice or a split that was trained on.
    """
    if name not in SLICES:
        raise ValueError(f"traffic: no slice {name!r}; there are {', '.join(SLICES)}")
    wanted = set(splits)
    if not wanted or not wanted <= {TEST, VALIDATION}:
        raise ValueError(f"splits must be {TEST}, {VALIDATION} or both")
    part = SLICES[name]
    turns = (*sharegpt.first, *sharegpt.later)
    found = [turn.example() for turn in turns if turn.split in wanted and part.keep(turn)]
    return found if part.limit is None else [_cut(example, part.limit) for example in found]


def _cut(example: Example, limit: int) -> Example:
    if example.output_tokens < limit:
        return example
    return replace(example, output_tokens=limit, finish_reason=FinishReason.LENGTH)
