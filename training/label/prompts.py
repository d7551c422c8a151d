"""What is asked: distinct prompts in an order in which any beginning is a fair sample."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from training.split import SPLITS, TEST, TRAIN, VALIDATION, plain

#: Held-out prompts come first: a run that ends early can still judge.
_ORDER = (TEST, VALIDATION, TRAIN)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt to label. By ``id`` and ``conversation`` it is found again in its source."""

    text: str = field(repr=False)
    id: str
    conversation: str
    split: str

    @property
    def key(self) -> str:
        """Hash of the prompt, the same for texts that :func:`training.split.plain` makes equal."""
        return hashlib.sha256(plain(self.text).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def choose(
    prompts: Iterable[Prompt],
    *,
    splits: Collection[str] = SPLITS,
    most_chars: int = 0,
    limit: int = 0,
) -> list[Prompt]:
    """Distinct prompts of ``splits``, held-out ones first, each split in the order of its hashes.

    A prompt that splits share stays in the one that comes first: nothing that is trained on is held
    out. ``most_chars``: longer prompts are left out; ``limit``: prompts of a split at most; 0: no
    bound. Raises ``ValueError`` when nothing is left or a split is not known.
    """
    if unknown := sorted(set(splits) - set(SPLITS)):
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {unknown[0]!r}")
    for name, bound in (("most_chars", most_chars), ("limit", limit)):
        if bound < 0:
            raise ValueError(f"{name} must be at least 0, got {bound}")
    keyed = [((_ORDER.index(p.split), p.key, p.id), p) for p in prompts]
    keyed.sort(key=lambda pair: pair[0])
    distinct: dict[str, Prompt] = {}
    for (_, key, _), prompt in keyed:
        distinct.setdefault(key, prompt)
    counts = dict.fromkeys(SPLITS, 0)
    chosen = []
    for prompt in distinct.values():
        if prompt.split not in splits or (most_chars and len(prompt.text) > most_chars):
            continue
        if limit and counts[prompt.split] >= limit:
            continue
        counts[prompt.split] += 1
        chosen.append(prompt)
    if not chosen:
        raise ValueError("no prompt is left: see the splits and the bound on their characters")
    return chosen
