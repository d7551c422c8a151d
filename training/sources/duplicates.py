"""The same row twice."""

from __future__ import annotations

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


class Ids:
    """Ids seen so far with the place of each, so that an error can name both."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, ...], str] = {}

    def add(self, place: str, column: str, *key: str) -> None:
        """Raises ``ValueError`` naming ``place`` and the earlier one when ``key`` is known."""
        earlier = self._places.setdefault(key, place)
        if earlier is not place:
            raise ValueError(f"{place}: column {column} repeats that of {earlier}")
