"""Rows that may judge a ranker: those that it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from training.evaluate import LEAST_ROWS
from training.gate.rows import unseen
from training.sources import Example


@dataclass(frozen=True, slots=True)
class HeldOut:
    """``rows``, in order, without the ``left_out`` ones that the ranker was trained on; that is
    ``None``, and the rows are all, when nothing says what it was trained on."""

    rows: list[Example]
    left_out: int | None = None

    @classmethod
    def of(
        cls, examples: Sequence[Example], trained_on: bytes | None, *, source: str, ranker: str
    ) -> HeldOut:
        """``trained_on`` are the hashes of :func:`training.gate.rows.seen`, ``None`` where there
        are none; ``source`` and ``ranker`` are names for the error.

        What a ranker was calibrated on, no hash tells. Raises ``ValueError`` when rows are left out
        and the others are too few to judge by.
        """
        if trained_on is None:
            return cls(list(examples))
        rows = unseen(examples, trained_on)
        left_out = len(examples) - len(rows)
        if left_out and len(rows) < LEAST_ROWS:
            raise ValueError(
                f"{source}: {ranker} was trained on the prompts or conversations of {left_out:,} "
                f"of {len(examples):,} rows, and {len(rows)} others are too few to judge it by; at "
                f"least {LEAST_ROWS} are needed: give rows that it was not trained on, or the "
                "column split that it was trained with"
            )
        return cls(rows, left_out)


def footnote(sets: Mapping[str, HeldOut], ranker: str) -> str:
    """What is to be said of ``sets`` by name, in one line; empty when nothing was left out."""
    if any(held.left_out is None for held in sets.values()):
        return (
            f"Whether {ranker} was trained on some of these rows is not known: no run in a "
            "registry says what it was trained on."
        )
    left = [
        f"{held.left_out:,} of {len(held.rows) + held.left_out:,} {name} rows"
        for name, held in sets.items()
        if held.left_out
    ]
    return f"Left out, because {ranker} was trained on them: {', '.join(left)}." if left else ""
