"""Rows on two sides of a split: a ranker that has seen them would be praised for its memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from training.sources.example import Data, Example
from training.split import TEST, TRAIN, VALIDATION, plain

#: What a split must not share with: test is kept clean of all, validation of training.
_HELD_OUT = {TRAIN: (VALIDATION, TEST), VALIDATION: (TEST,), TEST: ()}
_NAMED = 3  # ids that an error gives


def without_leaks(examples: Sequence[Example]) -> list[Example]:
    """Drop training rows that are also held out, and validation rows that are in test.

    Rows are the same when :func:`training.split.plain` makes their prompts equal, or when they are
    turns of one conversation. For splits that a hash made; those of others are
    for :func:`refuse_leaks`.
    """
    return [e for e, leaks in zip(examples, _leaks(examples), strict=True) if not leaks]


def apart(helper: Data, examples: Iterable[Example]) -> Data:
    """Training rows of ``helper`` that share neither prompt nor conversation with held-out rows of
    ``examples``: what helps to learn must not know what is asked in the test. The others count as
    its leaks."""
    held = {trait for e in examples if e.split != TRAIN for trait in _traits(e)}
    rows = [e for e in helper.examples if e.split == TRAIN]
    kept = tuple(e for e in rows if held.isdisjoint(_traits(e)))
    return replace(helper, examples=kept, leaks=helper.leaks + len(rows) - len(kept))


def refuse_leaks(data: Data) -> None:
    """Raises ``ValueError`` with counts and ids, when splits of ``data`` share rows.

    Whoever made the splits may have meant another line than ours: which side gives way is theirs to
    say.
    """
    leaking = [e for e, leaks in zip(data.examples, _leaks(data.examples), strict=True) if leaks]
    if not leaking:
        return
    counts = Counter(e.split for e in leaking)
    ids = ", ".join(e.id for e in leaking[:_NAMED]) + (", ..." if len(leaking) > _NAMED else "")
    raise ValueError(
        f"{data.name}: column split: prompts or conversations are on two sides: "
        + " and ".join(f"{count} {split} rows" for split, count in sorted(counts.items()))
        + f" (ids {ids}) are also held out; remove them, or the column, and a hash of the prompt "
        "decides"
    )


def _leaks(examples: Sequence[Example]) -> Iterator[bool]:
    seen: dict[str, set[tuple[str, str]]] = {VALIDATION: set(), TEST: set()}
    for e in examples:
        if e.split != TRAIN:
            seen[e.split].update(_traits(e))
    for e in examples:
        traits = _traits(e)
        yield any(not seen[split].isdisjoint(traits) for split in _HELD_OUT[e.split])


def _traits(e: Example) -> tuple[tuple[str, str], ...]:
    prompt = ("prompt", plain(e.prompt))
    return (prompt, ("conversation", e.conversation)) if e.conversation else (prompt,)
