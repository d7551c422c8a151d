"""The same row twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from training.sources.example import Example
from training.split import plain


def deduplicated(examples: Iterable[Example]) -> list[Example]:
    """``examples`` without exact repeats, in order: same prompt (as
    :func:`training.split.plain` reads it), model, length, finish reason and id.

    Several answers to one prompt all stay, equal lengths included: they are draws of a
    distribution, and their ids tell them from one answer that was logged twice.
    """
    first: dict[tuple[object, ...], Example] = {}
    for e in examples:
        first.setdefault((plain(e.prompt), e.model, e.output_tokens, e.finish_reason, e.id), e)
    return list(first.values())


class Repeats:
    """Rows that no id tells apart, seen so far: of those that are the same in all that counts only
    the first is a draw, since a file that was exported twice would else look like answers that
    agree. ``reason``, for ``Data.skipped``, says what ``keeps`` repeats as draws.
    """

    def __init__(self, keeps: str) -> None:
        self.reason = f"the same as an earlier row and without an id ({keeps} keeps such rows)"
        self._seen: set[bytes] = set()

    def again(self, *told: str | int) -> bool:
        """Whether a row that tells this was there before. Only a digest of it is kept."""
        row = hashlib.sha256(repr(told).encode()).digest()
        known = row in self._seen
        self._seen.add(row)
        return known


class Ids:
    """Ids seen so far with the place of each, so that an error can name both."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, ...], str] = {}

    def add(self, place: str, column: str, *key: str) -> None:
        """Raises ``ValueError`` naming ``place`` and the earlier one when ``key`` is known."""
        earlier = self._places.setdefault(key, place)
        if earlier is not place:
            raise ValueError(f"{place}: column {column} repeats that of {earlier}")
