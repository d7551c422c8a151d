"""The sizes that steps of decodes are padded to, one graph each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: Rows of the largest step with drafts that is a graph; above, its kernels outlast their start.
_VERIFIED = 128


class Bucket(NamedTuple):
    """``rows`` in all, at most ``each`` of a sequence: one and its drafts."""

    rows: int
    each: int


@dataclass(frozen=True, slots=True)
class Buckets:
    """``sizes``: ascending numbers of sequences of one row each; ``pages``: the width of the block
    tables. ``verified``: ascending numbers of rows in all of steps with drafts, of which a
    sequence has ``drafts`` at most.
    """

    sizes: tuple[int, ...]
    pages: int
    drafts: int = 0
    verified: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("sizes", "verified"):
            sizes = getattr(self, name)
            if list(sizes) != sorted(set(sizes)) or (sizes and sizes[0] < 1):
                raise ValueError(f"{name} must ascend from 1 or more, got {sizes}")
        if self.pages < 1:
            raise ValueError(f"pages must be >= 1, got {self.pages}")

    @classmethod
    def upto(cls, sequences: int, pages: int, drafts: int = 0) -> Buckets:
        """1, 2, 4, then every eighth up to 256 and every sixteenth above, as vLLM has them; the
        last is ``sequences`` itself. With drafts, powers of two of rows."""
        steps = (1, 2, 4, *range(8, 256, 8), *range(256, sequences, 16))
        sizes = (*(size for size in steps if size < sequences), sequences)
        most = min(_VERIFIED, sequences * (1 + drafts)) if drafts else 0
        verified = (*(size for size in (2, 4, 8, 16, 32, 64) if size < most), most) if most else ()
        return cls(sizes, pages, drafts, verified)

    @property
    def all(self) -> tuple[Bucket, ...]:
        """The largest first."""
        single = [Bucket(size, 1) for size in self.sizes]
        return tuple(sorted([*single, *(Bucket(n, 1 + self.drafts) for n in self.verified)])[::-1])

    def of(self, rows: Sequence[int]) -> Bucket | None:
        """The smallest for sequences of so many ``rows``, if there is one."""
        most = max(rows)
        if most == 1:
            return _smallest(self.sizes, len(rows), 1)
        if most <= 1 + self.drafts:
            return _smallest(self.verified, sum(rows), 1 + self.drafts)
        return None


def _smallest(sizes: tuple[int, ...], rows: int, each: int) -> Bucket | None:
    at = bisect_left(sizes, rows)
    return Bucket(sizes[at], each) if at < len(sizes) else None
